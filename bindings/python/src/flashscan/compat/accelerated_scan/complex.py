# SPDX-License-Identifier: Apache-2.0
"""The signature of accelerated-scan's module ``complex``: that of ``scalar``, where complex numbers are taken too."""

from .scalar import scan

__all__ = ["scan"]
