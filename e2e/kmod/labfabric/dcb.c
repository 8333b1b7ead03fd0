// SPDX-License-Identifier: GPL-2.0
/*
 * Data Center Bridging as mlx5 does it in Linux 6.1
 * (drivers/net/ethernet/mellanox/mlx5/core/en_dcbnl.c): what it checks, what it
 * rounds, and that a change of PFC bounces the link.
 */
#include <net/dcbnl.h>

#include "labfabric.h"

#define MAX_CABLE_LENGTH	1000	/* metres */
#define DEFAULT_CABLE_LENGTH	7
#define RATE_100MBPS		100000	/* kbit/s */
#define RATE_1GBPS		1000000

static bool locked(struct lab_port *port)
{
	return port->dcbx == LAB_DCBX_LOCKED;
}

static int refusal(struct lab_port *port, enum lab_feature feature)
{
	if (!lab_supports(feature))
		return -EOPNOTSUPP;
	return locked(port) ? -EINVAL : 0;
}

static int lab_getets(struct net_device *dev, struct ieee_ets *ets)
{
	if (!lab_supports(LAB_ETS))
		return -EOPNOTSUPP;
	*ets = lab_netdev_of(dev)->ets;
	return 0;
}

static int check_ets(const struct ieee_ets *ets)
{
	bool shared = false;
	int i, sum = 0;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= IEEE_8021QAZ_MAX_TCS)
			return -EINVAL;
		if (ets->tc_tsa[i] == IEEE_8021QAZ_TSA_CB_SHAPER)
			return -EOPNOTSUPP;
		if (ets->tc_tsa[i] == IEEE_8021QAZ_TSA_ETS) {
			shared = true;
			sum += ets->tc_tx_bw[i];
		}
	}
	return shared && sum != 100 ? -EINVAL : 0;
}

static int lab_setets(struct net_device *dev, struct ieee_ets *ets)
{
	struct lab_netdev *nd = lab_netdev_of(dev);
	int i, err;

	nd->port->writes.ets++;
	err = refusal(nd->port, LAB_ETS);
	if (!err)
		err = check_ets(ets);
	if (err)
		return err;
	memcpy(nd->ets.prio_tc, ets->prio_tc, sizeof(nd->ets.prio_tc));
	memcpy(nd->ets.tc_tsa, ets->tc_tsa, sizeof(nd->ets.tc_tsa));
	/* Bandwidth is read back for ETS only; nothing else is kept. */
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		nd->ets.tc_tx_bw[i] =
			ets->tc_tsa[i] == IEEE_8021QAZ_TSA_ETS ? ets->tc_tx_bw[i] : 0;
	return 0;
}

/* tclass[prio 0] is 1 and tclass[prio 1] is 0: mlx5 sets this whenever it starts. */
static void reset_ets(struct lab_netdev *nd)
{
	int i;

	memset(&nd->ets, 0, sizeof(nd->ets));
	nd->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		nd->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_VENDOR;
		nd->ets.prio_tc[i] = i;
	}
	nd->ets.prio_tc[0] = 1;
	nd->ets.prio_tc[1] = 0;
}

static int lab_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct lab_netdev *nd = lab_netdev_of(dev);

	if (!lab_supports(LAB_PFC))
		return -EOPNOTSUPP;
	memset(pfc, 0, sizeof(*pfc));
	pfc->pfc_cap = IEEE_8021QAZ_MAX_TCS;
	pfc->pfc_en = nd->port->pfc_en;
	pfc->delay = nd->cable_len;
	return 0;
}

static void bounce(struct lab_netdev *nd)
{
	if (!netif_running(nd->dev))
		return;
	nd->port->writes.bounces++;
	netif_carrier_off(nd->dev);
	mod_delayed_work(system_wq, &nd->link_up, msecs_to_jiffies(lab_bounce_ms));
}

static int lab_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct lab_netdev *nd = lab_netdev_of(dev);
	int err;

	nd->port->writes.pfc++;
	err = refusal(nd->port, LAB_PFC);
	if (err)
		return err;
	if (pfc->pfc_en != nd->port->pfc_en) {
		nd->port->pfc_en = pfc->pfc_en;
		bounce(nd);
	}
	if (pfc->delay && pfc->delay < MAX_CABLE_LENGTH)
		nd->cable_len = pfc->delay;
	return 0;
}

static int lab_setapp(struct net_device *dev, struct dcb_app *app)
{
	struct lab_netdev *nd = lab_netdev_of(dev);
	struct lab_port *port = nd->port;
	struct dcb_app old = { .selector = IEEE_8021QAZ_APP_SEL_DSCP };
	bool replaced;
	int err;

	port->writes.app++;
	err = refusal(port, LAB_APP);
	if (err)
		return err;
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP ||
	    app->protocol >= ARRAY_SIZE(port->dscp2prio))
		return -EINVAL;

	old.protocol = app->protocol;
	old.priority = port->dscp2prio[app->protocol];
	port->trust_dscp = true;
	port->dscp2prio[app->protocol] = app->priority;
	replaced = !dcb_ieee_delapp(dev, &old);
	err = dcb_ieee_setapp(dev, app);
	if (!err && !replaced)
		nd->dscp_apps++;
	return err;
}

static int lab_delapp(struct net_device *dev, struct dcb_app *app)
{
	struct lab_netdev *nd = lab_netdev_of(dev);
	struct lab_port *port = nd->port;
	int err;

	port->writes.app++;
	err = refusal(port, LAB_APP);
	if (err)
		return err;
	if (app->selector != IEEE_8021QAZ_APP_SEL_DSCP ||
	    app->protocol >= ARRAY_SIZE(port->dscp2prio))
		return -EINVAL;
	if (!nd->dscp_apps || app->priority != port->dscp2prio[app->protocol])
		return -ENOENT;
	err = dcb_ieee_delapp(dev, app);
	if (err)
		return err;
	port->dscp2prio[app->protocol] = 0;
	if (!--nd->dscp_apps)
		port->trust_dscp = false;
	return 0;
}

static int lab_getmaxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	if (!lab_supports(LAB_MAXRATE))
		return -EOPNOTSUPP;
	*rate = lab_netdev_of(dev)->port->maxrate;
	return 0;
}

/* The hardware counts in 255 steps, of 100 Mb/s as long as that is enough. */
static int quantise(u64 *kbps)
{
	u64 step = *kbps <= 255 * RATE_100MBPS ? RATE_100MBPS : RATE_1GBPS;

	if (!*kbps)
		return 0;
	if (*kbps > 255ULL * RATE_1GBPS)
		return -EINVAL;
	*kbps = max(*kbps - *kbps % step, step);
	return 0;
}

static int lab_setmaxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	struct lab_port *port = lab_netdev_of(dev)->port;
	struct ieee_maxrate new = *rate;
	int i, err;

	port->writes.maxrate++;
	err = refusal(port, LAB_MAXRATE);
	for (i = 0; !err && i < IEEE_8021QAZ_MAX_TCS; i++)
		err = quantise(&new.tc_maxrate[i]);
	if (!err)
		port->maxrate = new;
	return err;
}

static int lab_getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	if (!lab_supports(LAB_BUFFER))
		return -EOPNOTSUPP;
	*buffer = lab_netdev_of(dev)->port->buffer;
	return 0;
}

static int lab_setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct lab_port *port = lab_netdev_of(dev)->port;
	u64 sum = 0;
	int i, err;

	port->writes.buffer++;
	err = refusal(port, LAB_BUFFER);
	if (err)
		return err;
	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		sum += buffer->buffer_size[i];
	if (sum > port->buffer.total_size)
		return -EINVAL;
	memcpy(port->buffer.prio2buffer, buffer->prio2buffer, sizeof(buffer->prio2buffer));
	memcpy(port->buffer.buffer_size, buffer->buffer_size, sizeof(buffer->buffer_size));
	return 0;
}

static u8 lab_getdcbx(struct net_device *dev)
{
	return lab_netdev_of(dev)->dcbx_cap;
}

/* Zero when the new owner was accepted. */
static u8 lab_setdcbx(struct net_device *dev, u8 mode)
{
	struct lab_netdev *nd = lab_netdev_of(dev);

	nd->port->writes.dcbx++;
	if (!lab_supports(LAB_DCBX) || locked(nd->port) || (mode & DCB_CAP_DCBX_LLD_MANAGED))
		return 1;
	if (!mode) {
		nd->port->dcbx = LAB_DCBX_FIRMWARE;
		nd->dcbx_cap &= ~DCB_CAP_DCBX_HOST;
		return 0;
	}
	if (!(mode & DCB_CAP_DCBX_HOST))
		return 1;
	nd->port->dcbx = LAB_DCBX_HOST;
	nd->dcbx_cap = mode;
	return 0;
}

static u8 lab_getcap(struct net_device *dev, int id, u8 *cap)
{
	switch (id) {
	case DCB_CAP_ATTR_PG:
	case DCB_CAP_ATTR_PFC:
		*cap = true;
		return 0;
	case DCB_CAP_ATTR_PG_TCS:
	case DCB_CAP_ATTR_PFC_TCS:
		*cap = 1 << (IEEE_8021QAZ_MAX_TCS - 1);
		return 0;
	case DCB_CAP_ATTR_UP2TC:
	case DCB_CAP_ATTR_GSP:
	case DCB_CAP_ATTR_BCN:
		*cap = false;
		return 0;
	case DCB_CAP_ATTR_DCBX:
		*cap = lab_getdcbx(dev) | DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE;
		return 0;
	default:
		*cap = 0;
		return 1;
	}
}

void lab_dcb_init(struct lab_netdev *nd)
{
	struct dcbnl_rtnl_ops *ops = &nd->dcbnl;

	reset_ets(nd);
	nd->cable_len = DEFAULT_CABLE_LENGTH;
	nd->dcbx_cap = DCB_CAP_DCBX_VER_CEE | DCB_CAP_DCBX_VER_IEEE;
	if (nd->port->dcbx == LAB_DCBX_HOST)
		nd->dcbx_cap |= DCB_CAP_DCBX_HOST;
	if (locked(nd->port))
		nd->dcbx_cap |= DCB_CAP_DCBX_LLD_MANAGED;

	if (lab_has(LAB_ETS)) {
		ops->ieee_getets = lab_getets;
		ops->ieee_setets = lab_setets;
	}
	if (lab_has(LAB_PFC)) {
		ops->ieee_getpfc = lab_getpfc;
		ops->ieee_setpfc = lab_setpfc;
	}
	if (lab_has(LAB_APP)) {
		ops->ieee_setapp = lab_setapp;
		ops->ieee_delapp = lab_delapp;
	}
	if (lab_has(LAB_MAXRATE)) {
		ops->ieee_getmaxrate = lab_getmaxrate;
		ops->ieee_setmaxrate = lab_setmaxrate;
	}
	if (lab_has(LAB_BUFFER)) {
		ops->dcbnl_getbuffer = lab_getbuffer;
		ops->dcbnl_setbuffer = lab_setbuffer;
	}
	if (lab_has(LAB_DCBX)) {
		ops->getdcbx = lab_getdcbx;
		ops->setdcbx = lab_setdcbx;
	}
	ops->getcap = lab_getcap;
	if (lab_has(LAB_DCBNL))
		nd->dev->dcbnl_ops = ops;
}

/* All 64 mappings, when the firmware trusts DSCP already. */
void lab_dcb_show_apps(struct lab_netdev *nd)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP };
	int i;

	if (!nd->port->trust_dscp || !nd->dev->dcbnl_ops || !lab_has(LAB_APP))
		return;
	for (i = 0; i < ARRAY_SIZE(nd->port->dscp2prio); i++) {
		app.protocol = i;
		app.priority = nd->port->dscp2prio[i];
		if (!dcb_ieee_setapp(nd->dev, &app))
			nd->dscp_apps++;
	}
}

/* Back to what the port was when the module was loaded. */
void lab_dcb_forget(struct lab_netdev *nd)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP };
	int i;

	for (i = 0; i < ARRAY_SIZE(nd->port->dscp2prio); i++) {
		app.protocol = i;
		app.priority = nd->port->dscp2prio[i];
		dcb_ieee_delapp(nd->dev, &app);
	}
	nd->dscp_apps = 0;
	lab_port_defaults(nd->port);
	reset_ets(nd);
	nd->cable_len = DEFAULT_CABLE_LENGTH;
}
