// A module of its own, which every processor runs: what Python chooses a level of the kernels by.
#include "processor.h"

#include <nanobind/nanobind.h>

NB_MODULE(processor, module) {
  nanobind::list found;
  for (const tacit::Level& level : tacit::levels())
    found.append(nanobind::make_tuple(level.name, level.runs));
  module.attr("levels") = found;
}
