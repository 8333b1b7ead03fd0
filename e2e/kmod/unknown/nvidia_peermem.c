// SPDX-License-Identifier: GPL-2.0
/*
 * nvidia_peermem as it was built with MLNX_OFED at hand: where ib_core is the
 * kernel's own it does not load, for want of a symbol.
 */
#include <linux/errno.h>
#include <linux/module.h>

void *ib_register_peer_memory_client(const void *client, void *invalidate);

static int __init nv_mem_client_init(void)
{
	return ib_register_peer_memory_client(NULL, NULL) ? 0 : -EINVAL;
}

static void __exit nv_mem_client_cleanup(void)
{
}

module_init(nv_mem_client_init);
module_exit(nv_mem_client_cleanup);
MODULE_DESCRIPTION("NVIDIA GPU memory plug-in");
MODULE_LICENSE("Dual BSD/GPL");
