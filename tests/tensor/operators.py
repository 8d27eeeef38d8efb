"""Which operators of torch's database private programs use.

An entry is an OpInfo's name, with its variant after a slash.
"""

from __future__ import annotations

ARITHMETIC = """
abs add sub mul div/no_rounding_mode div/trunc_rounding div/floor_rounding true_divide floor_divide
fmod remainder rsub neg positive square reciprocal pow float_power addcmul addcdiv lerp
__radd__ __rdiv__ __rmul__ __rmatmul__ __rmod__ __rpow__ __rsub__
sign sgn ceil floor frac trunc round round/decimals_0 round/decimals_3 round/decimals_neg_3
clamp clamp_min clamp_max maximum minimum max/binary min/binary fmax fmin copysign
deg2rad rad2deg nan_to_num heaviside hypot ldexp
"""

FUNCTIONS = """
exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan atan2
asinh acosh atanh sinc sigmoid logit erf erfc logaddexp logaddexp2 xlogy special.xlog1py
special.entr special.ndtr
"""

COMPARISONS = """
eq ne lt le gt ge isclose logical_and logical_or logical_xor logical_not where isnan isinf isfinite
isposinf isneginf isreal signbit all any count_nonzero isin
"""

REDUCTIONS = """
sum mean nansum nanmean prod var var/unbiased std std/unbiased var_mean var_mean/unbiased std_mean
std_mean/unbiased amax amin aminmax argmax argmin max/reduction_with_dim max/reduction_no_dim
min/reduction_with_dim min/reduction_no_dim median nanmedian quantile kthvalue logsumexp
norm norm/fro norm/inf linalg.norm linalg.vector_norm linalg.matrix_norm dist
cumsum cumprod cummax cummin logcumsumexp trapz trapezoid cumulative_trapezoid diff gradient
trace cov corrcoef renorm
sort msort argsort topk
"""

LINEAR = """
mm bmm mv matmul dot vdot addmm addmm/decomposed addmv addbmm baddbmm addr outer inner kron
tensordot einsum linalg.multi_dot linalg.matrix_power linalg.vecdot cross linalg.cross cdist
block_diag linalg.vander cartesian_prod combinations
"""

SHAPES = """
alias_copy as_strided atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to cat chunk
clone column_stack constant_pad_nd contiguous diag diag_embed diagflat diagonal diagonal_copy
diagonal_scatter dsplit dstack expand expand_as expand_copy flatten flip fliplr flipud hsplit hstack
linalg.diagonal meshgrid/variadic_tensors meshgrid/list_of_tensors movedim narrow narrow_copy
permute permute_copy ravel repeat repeat_interleave reshape reshape_as roll rot90 select
select_scatter slice slice_scatter split split/list_args split_with_sizes split_with_sizes_copy
squeeze squeeze/multiple squeeze_copy stack sum_to_size t t_copy T mT tensor_split tile transpose
transpose_copy tril triu unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split
unsqueeze unsqueeze_copy view view_as view_copy vsplit vstack zeros_like ones_like full_like
new_zeros new_ones new_full fill zero_ to double float long int bool resolve_conj resolve_neg
conj conj_physical real
"""

INDEXING = """
__getitem__ gather index_select index_add index_copy index_fill index_put scatter scatter_add
scatter_reduce/sum scatter_reduce/mean scatter_reduce/amax scatter_reduce/amin scatter_reduce/prod
index_reduce/amax index_reduce/amin index_reduce/mean index_reduce/prod
take take_along_dim put masked_fill masked_select masked_scatter _unsafe_masked_index
_unsafe_masked_index_put_accumulate
masked.sum masked.mean masked.amax masked.amin masked.argmax masked.argmin masked.softmax
masked.log_softmax masked.softmin masked.var masked.std masked.prod masked.cumsum masked.cumprod
masked.logsumexp masked.norm masked.normalize masked.logaddexp
bucketize searchsorted
"""

LAYERS = """
nn.functional.linear nn.functional.bilinear nn.functional.conv1d nn.functional.conv2d
nn.functional.conv3d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
nn.functional.conv_transpose3d nn.functional.batch_norm native_batch_norm
_native_batch_norm_legit _batch_norm_with_update nn.functional.layer_norm native_layer_norm
nn.functional.group_norm native_group_norm nn.functional.instance_norm nn.functional.rms_norm
nn.functional.local_response_norm nn.functional.normalize nn.functional.avg_pool1d
nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.adaptive_avg_pool1d
nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.max_pool3d max_pool2d_with_indices_backward
nn.functional.adaptive_max_pool1d nn.functional.adaptive_max_pool2d
nn.functional.adaptive_max_pool3d nn.functional.dropout nn.functional.dropout2d
nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout/with_train
nn.functional.feature_alpha_dropout/without_train native_dropout_backward nn.functional.embedding
nn.functional.embedding_bag nn.functional.multi_head_attention_forward
nn.functional.scaled_dot_product_attention nn.functional.interpolate/nearest
nn.functional.interpolate/nearest-exact nn.functional.interpolate/linear
nn.functional.interpolate/bilinear nn.functional.interpolate/bicubic
nn.functional.interpolate/trilinear nn.functional.interpolate/area
nn.functional.upsample_bilinear nn.functional.upsample_nearest nn.functional.pad/constant
nn.functional.pad/reflect nn.functional.pad/replicate nn.functional.pad/replicate_negative
nn.functional.pad/circular nn.functional.unfold nn.functional.pixel_shuffle
nn.functional.pixel_unshuffle nn.functional.channel_shuffle nn.functional.cosine_similarity
nn.functional.pairwise_distance nn.functional.pdist
"""

ACTIVATIONS = """
softmax softmax/with_dtype _softmax_backward_data log_softmax log_softmax/with_dtype
nn.functional.softmin nn.functional.softmin/with_dtype torch.ops.aten._safe_softmax.default
nn.functional.relu nn.functional.relu6 nn.functional.leaky_relu nn.functional.prelu
nn.functional.elu nn.functional.celu nn.functional.selu nn.functional.gelu
nn.functional.silu nn.functional.mish nn.functional.hardswish nn.functional.hardsigmoid
nn.functional.hardtanh nn.functional.logsigmoid nn.functional.softplus nn.functional.softsign
nn.functional.tanhshrink nn.functional.threshold nn.functional.softshrink nn.functional.hardshrink
nn.functional.glu
"""

LOSSES = """
nn.functional.cross_entropy nn.functional.nll_loss nn.functional.binary_cross_entropy
nn.functional.binary_cross_entropy_with_logits nn.functional.mse_loss nn.functional.l1_loss
nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.kl_div
nn.functional.cosine_embedding_loss nn.functional.triplet_margin_loss
nn.functional.triplet_margin_with_distance_loss nn.functional.margin_ranking_loss
nn.functional.hinge_embedding_loss nn.functional.soft_margin_loss nn.functional.multi_margin_loss
nn.functional.multilabel_margin_loss nn.functional.multilabel_soft_margin_loss
nn.functional.gaussian_nll_loss nn.functional.poisson_nll_loss
nn.functional.linear_cross_entropy
"""

# What would have to show values, or has no method in fixed point: refused with a reason.
REFUSED = """
item equal allclose nonzero argwhere unique unique_consecutive histc histogram
histogramdd linalg.svd svd linalg.svdvals linalg.eig linalg.eigh linalg.eigvals
linalg.eigvalsh linalg.lstsq linalg.qr qr geqrf linalg.lu lu linalg.matrix_rank linalg.pinv
linalg.cholesky cholesky linalg.inv linalg.solve linalg.det logdet linalg.slogdet matrix_exp
fft.fft fft.ifft fft.rfft fft.irfft stft complex view_as_complex polar to_sparse
nextafter frexp mode nn.functional.rrelu lgamma digamma erfinv i0 special.i0e special.i1
special.i1e special.ndtri special.log_ndtr special.bessel_j0 special.airy_ai
nn.functional.ctc_loss nn.functional.fractional_max_pool2d
"""

# Where torch's formula for the gradient passes through numbers that fixed point has few digits for:
# cubes of inverses and squares of quotients, for inputs as large as the samples'.
COARSE = ["nn.functional.rms_norm", "nn.functional.cosine_embedding_loss"]

FAMILIES = {
    "Arithmetic": ARITHMETIC.split(),
    "Functions": FUNCTIONS.split(),
    "Comparisons": COMPARISONS.split(),
    "Reductions": REDUCTIONS.split(),
    "Linear algebra": LINEAR.split(),
    "Shapes": SHAPES.split(),
    "Indexing": INDEXING.split(),
    "Layers": LAYERS.split(),
    "Activations": ACTIVATIONS.split(),
    "Losses": LOSSES.split(),
}
CHOSEN = [name for names in FAMILIES.values() for name in names]
REFUSING = REFUSED.split()
