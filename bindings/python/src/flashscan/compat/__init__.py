# SPDX-License-Identifier: Apache-2.0
"""Functions with the names, arguments and layouts of other packages, on flashscan.torch: one module for each package.

A program that uses one of them changes its import line:

    from accelerated_scan.warp import scan                  from flashscan.compat.accelerated_scan.warp import scan
    from sequential_scan import scan                        from flashscan.compat.sequential_scan import scan
    from torch_parallel_scan import prefix_scan             from flashscan.compat.torch_parallel_scan import prefix_scan
    from flashrnn import flashrnn                           from flashscan.compat.flashrnn import flashrnn
    from mamba_ssm.ops.selective_scan_interface \\
        import selective_scan_fn                            from flashscan.compat.mamba_ssm import selective_scan_fn
    from fla.ops.hgrn import chunk_hgrn                     from flashscan.compat.fla import chunk_hgrn
    from recurrentgemma.jax.scan import linear_scan         from flashscan.compat.recurrentgemma import linear_scan

``flashscan.compat.heinsen`` has scans in log space, which programs copy from a paper.

Nothing is compiled when they are called, lengths and sizes are free, tensors may be on the CPU or on a GPU, and
gradients may be asked for any number of times.
"""
