/* SPDX-License-Identifier: GPL-2.0 */
/*
 * labfabric: a PCI tree that is read from a table, and the ports of its
 * network adapters.
 */
#ifndef LABFABRIC_H
#define LABFABRIC_H

#include <linux/dcbnl.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/pci.h>

/* What a port has and a test may take away: names of missing= and unsupported=. */
enum lab_feature {
	LAB_DCBNL,
	LAB_ETS,
	LAB_PFC,
	LAB_APP,
	LAB_MAXRATE,
	LAB_BUFFER,
	LAB_DCBX,
	LAB_PAUSE,
	LAB_STALL,
	LAB_FEATURES
};

/* Who owns DCBX. */
enum lab_dcbx {
	LAB_DCBX_HOST,
	LAB_DCBX_FIRMWARE,	/* mlx5: still takes sets, gives itself to the host */
	LAB_DCBX_LOCKED,	/* bnxt, ice: refuses sets, and the host */
};

/* Congestion control of a priority: reaction point, notification point. */
enum lab_ecn {
	LAB_ROCE_RP,
	LAB_ROCE_NP,
	LAB_ECN_POINTS
};

/* How often user space asked to set something, changed or not. */
struct lab_writes {
	unsigned int ets, pfc, app, maxrate, buffer, dcbx, pause, stall, ecn, trust;
	unsigned int bounces;	/* and how often the link went down for it */
};

/*
 * A port as its firmware has it: this outlives the driver, and is lost with the
 * module.
 */
struct lab_port {
	char name[IFNAMSIZ];
	bool trust_dscp;
	u8 dscp2prio[64];
	u8 pfc_en;
	bool rx_pause, tx_pause;
	u16 stall_ms;
	enum lab_dcbx dcbx;
	struct ieee_maxrate maxrate;
	struct dcbnl_buffer buffer;
	u32 ecn[LAB_ECN_POINTS][IEEE_8021QAZ_MAX_TCS];
	u32 cnp_dscp, cnp_802p_prio, min_time_between_cnps;
	struct lab_writes writes;
};

#define LAB_MAX_PORTS 2

struct lab_function {
	struct list_head list;
	u8 bus, devfn;
	u16 exp, acs, ats;		/* offsets of its capabilities, 0 without */
	u16 devctl, acsctl, atsctl;	/* as the table has them */
	bool dead;			/* does not answer */
	u8 cfg[PCI_CFG_SPACE_EXP_SIZE];
	u8 writable[PCI_CFG_SPACE_EXP_SIZE];
	struct lab_port ports[LAB_MAX_PORTS];	/* those with a name exist */
};

/* A root bus, with all buses below it. */
struct lab_root {
	struct list_head list;
	struct pci_sysdata sysdata;
	struct resource busn;
	struct pci_bus *bus;
	struct list_head functions;
};

/* One line of the table. */
struct lab_line {
	unsigned int domain, bus, device, function;
	unsigned int vendor, id, subsystem_vendor, subsystem_id, class;
	int type;			/* PCI_EXP_TYPE_*, or LAB_NO_PCIE */
	unsigned int secondary, subordinate;	/* 0 when it is no bridge */
	u32 devcap, devctl, lnkcap, lnksta;
	bool has_acs, has_ats;
	u32 acscap, acsctl, atsctl;
	char ports[LAB_MAX_PORTS][IFNAMSIZ];
};

#define LAB_NO_PCIE (-1)

/* The netdev of a port. */
struct lab_netdev {
	struct net_device *dev;
	struct lab_port *port;
	struct dcbnl_rtnl_ops dcbnl;
	struct delayed_work link_up;
	/* What mlx5 keeps in the driver, and sets anew when it starts. */
	struct ieee_ets ets;
	u16 cable_len;
	u8 dcbx_cap;
	unsigned int dscp_apps;
	struct lab_ofed *ofed;
};

extern unsigned int lab_missing, lab_unsupported;	/* bits of enum lab_feature */
extern unsigned int lab_bounce_ms;
extern unsigned int lab_speed;
extern bool lab_keep;
extern bool lab_reset_on_down;
extern bool lab_ofed_sysfs;
extern enum lab_dcbx lab_dcbx;

static inline bool lab_has(enum lab_feature f)
{
	return !(lab_missing & BIT(f));
}

static inline bool lab_supports(enum lab_feature f)
{
	return !(lab_unsupported & BIT(f));
}

extern struct list_head lab_roots;

int lab_read_table(const char *path);
struct lab_root *lab_add_root(unsigned int domain, unsigned int first,
			      unsigned int last, int node);
int lab_add_function(const struct lab_line *line);
void lab_forget(void);

int lab_scan(void);
void lab_unscan(void);
int lab_set_dead(const char *address);
struct lab_function *lab_function_of(struct pci_dev *pdev);

int lab_driver_register(const char *name);
void lab_driver_unregister(void);
struct lab_netdev *lab_netdev_of(struct net_device *dev);

void lab_port_defaults(struct lab_port *port);
void lab_dcb_init(struct lab_netdev *nd);
void lab_dcb_show_apps(struct lab_netdev *nd);
void lab_dcb_forget(struct lab_netdev *nd);

int lab_ofed_create(struct lab_netdev *nd);
void lab_ofed_remove(struct lab_netdev *nd);

#endif
