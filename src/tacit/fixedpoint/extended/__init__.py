"""Values with more fraction bits than others have, where squares and their averages need them."""
