/* SPDX-License-Identifier: GPL-2.0 */
#ifndef NV_P2P_H
#define NV_P2P_H

/* That nvidia can pin pages for good: what ties nvidia_peermem to it. */
extern bool nvidia_p2p_cap_persistent_pages;

#endif
