/* Writes the golden messages of this directory: cc -o /tmp/golden golden.c && /tmp/golden .
 * The compiler lays the structs out as the kernel's header declares them. Attributes that a distribution's
 * header may not have yet are numbers here.
 */
#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APP_TRUST_TABLE 11 /* DCB_ATTR_DCB_APP_TRUST_TABLE, Linux 6.2 */
#define DCB_APP 2          /* DCB_ATTR_DCB_APP, Linux 6.2 */
#define SEL_PCP 255        /* DCB_APP_SEL_PCP, Linux 6.2 */

static unsigned char buf[4096];
static int len;

static void begin(int cmd)
{
	struct dcbmsg m = { .dcb_family = 0, .cmd = cmd };

	memset(buf, 0, sizeof(buf));
	memcpy(buf, &m, sizeof(m));
	len = sizeof(m);
}

static void put(int type, const void *data, int n)
{
	struct nlattr a = { .nla_len = NLA_HDRLEN + n, .nla_type = type };

	memcpy(buf + len, &a, sizeof(a));
	memcpy(buf + len + NLA_HDRLEN, data, n);
	len += NLA_ALIGN(NLA_HDRLEN + n);
}

static int nest(int type)
{
	int at = len;

	put(type, "", 0);
	return at;
}

static void end(int at)
{
	unsigned short n = len - at;

	memcpy(buf + at, &n, sizeof(n));
}

static void u8(int type, unsigned char v) { put(type, &v, 1); }
static void name(void) { put(DCB_ATTR_IFNAME, "dcbt0", 6); }

static void app(int sel, int prio, int proto)
{
	struct dcb_app a = { .selector = sel, .priority = prio, .protocol = proto };

	put(sel == SEL_PCP ? DCB_APP : DCB_ATTR_IEEE_APP, &a, sizeof(a));
}

static void save(const char *dir, const char *file)
{
	char path[256];
	FILE *f;
	int i;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "w");
	if (!f)
		exit(1);
	for (i = 0; i < len; i++)
		fprintf(f, "%02x%s", buf[i], i % 16 == 15 || i == len - 1 ? "\n" : " ");
	fclose(f);
}

static const struct ieee_pfc pfc = { .pfc_cap = 8, .pfc_en = 1 << 3, .mbc = 0, .delay = 7,
				     .requests = { 1, 2, 3, 1ULL << 40 }, .indications = { [7] = 5 } };
static const struct ieee_ets ets = { .ets_cap = 8, .tc_tx_bw = { 50, 0, 0, 50 }, .tc_tsa = { 2, 2, 2, 2, 2, 2, 2, 2 },
				     .prio_tc = { 0, 1, 2, 3, 4, 5, 6, 7 }, .tc_reco_bw = { 100 }, .tc_reco_tsa = { [7] = 255 },
				     .reco_prio_tc = { 7, 6, 5, 4, 3, 2, 1, 0 } };
static const struct dcbnl_buffer buffer = { .prio2buffer = { 0, 0, 0, 1, 0, 0, 2, 0 }, .buffer_size = { 130944, 131072, 4096 }, .total_size = 524160 };
static const struct ieee_maxrate rate = { .tc_maxrate = { 0, 100000, 0, 255000000ULL, 0, 0, 0, 1ULL << 33 } };

int main(int argc, char **argv)
{
	const char *dir = argc > 1 ? argv[1] : ".";
	int ieee, table;

	/* What an mlx5 port says when its driver has just begun: PCP trust, an empty APP table. */
	begin(DCB_CMD_IEEE_GET);
	name();
	ieee = nest(DCB_ATTR_IEEE);
	{
		struct ieee_ets e = { .ets_cap = 8, .prio_tc = { 1, 0, 2, 3, 4, 5, 6, 7 } };
		struct ieee_pfc p = { .pfc_cap = 8, .delay = 7 };
		struct ieee_maxrate r = { { 0 } };
		struct dcbnl_buffer b = { .buffer_size = { 262016 }, .total_size = 524160 };

		memset(e.tc_tsa, IEEE_8021QAZ_TSA_VENDOR, sizeof(e.tc_tsa));
		put(DCB_ATTR_IEEE_ETS, &e, sizeof(e));
		put(DCB_ATTR_IEEE_MAXRATE, &r, sizeof(r));
		put(DCB_ATTR_IEEE_PFC, &p, sizeof(p));
		put(DCB_ATTR_DCB_BUFFER, &b, sizeof(b));
	}
	table = nest(DCB_ATTR_IEEE_APP_TABLE);
	end(table);
	end(ieee);
	u8(DCB_ATTR_DCBX, 0x0d);
	save(dir, "get-default.hex");

	/* All attributes, with peers and a trust table as Linux 6.2 and later show it. */
	begin(DCB_CMD_IEEE_GET);
	name();
	ieee = nest(DCB_ATTR_IEEE);
	put(DCB_ATTR_IEEE_ETS, &ets, sizeof(ets));
	put(DCB_ATTR_IEEE_MAXRATE, &rate, sizeof(rate));
	put(DCB_ATTR_IEEE_PFC, &pfc, sizeof(pfc));
	put(DCB_ATTR_DCB_BUFFER, &buffer, sizeof(buffer));
	table = nest(DCB_ATTR_IEEE_APP_TABLE);
	app(IEEE_8021QAZ_APP_SEL_DSCP, 6, 48);
	app(IEEE_8021QAZ_APP_SEL_DSCP, 3, 26);
	app(IEEE_8021QAZ_APP_SEL_ETHERTYPE, 0, 0);
	app(SEL_PCP, 1, 1);
	end(table);
	table = nest(APP_TRUST_TABLE | NLA_F_NESTED);
	u8(DCB_ATTR_IEEE_APP, IEEE_8021QAZ_APP_SEL_DSCP);
	u8(DCB_APP, SEL_PCP);
	end(table);
	put(DCB_ATTR_IEEE_PEER_ETS, &ets, sizeof(ets));
	put(DCB_ATTR_IEEE_PEER_PFC, &pfc, sizeof(pfc));
	end(ieee);
	u8(DCB_ATTR_DCBX, 0x09);
	save(dir, "get-full.hex");

	/* A newer kernel: longer structs, an attribute that nobody knows. */
	begin(DCB_CMD_IEEE_GET);
	name();
	ieee = nest(DCB_ATTR_IEEE);
	{
		struct { struct ieee_pfc pfc; __u64 more[2]; } p = { .pfc = pfc, .more = { ~0ULL, ~0ULL } };
		unsigned char e[sizeof(ets) + 5];

		memset(e, 0xff, sizeof(e));
		memcpy(e, &ets, sizeof(ets));
		put(DCB_ATTR_IEEE_ETS, e, sizeof(e));
		put(DCB_ATTR_IEEE_PFC, &p, sizeof(p));
		put(99, "?", 1);
	}
	end(ieee);
	save(dir, "get-longer.hex");

	/* A driver that has DCB operations and nothing to show. */
	begin(DCB_CMD_IEEE_GET);
	name();
	ieee = nest(DCB_ATTR_IEEE);
	table = nest(DCB_ATTR_IEEE_APP_TABLE);
	end(table);
	end(ieee);
	save(dir, "get-nothing.hex");

	begin(DCB_CMD_GCAP);
	ieee = nest(DCB_ATTR_CAP);
	u8(DCB_CAP_ATTR_PG, 0);
	u8(DCB_CAP_ATTR_PFC, 1);
	u8(DCB_CAP_ATTR_PG_TCS, 0x80);
	u8(DCB_CAP_ATTR_DCBX, 0x0d);
	end(ieee);
	save(dir, "capabilities.hex");

	/* Requests. The counters of PFC are left out. */
	begin(DCB_CMD_IEEE_SET);
	name();
	ieee = nest(DCB_ATTR_IEEE | NLA_F_NESTED);
	{
		struct ieee_pfc p = { .pfc_cap = 8, .pfc_en = 1 << 3, .delay = 7 };

		put(DCB_ATTR_IEEE_PFC, &p, sizeof(p));
	}
	end(ieee);
	save(dir, "set-pfc.hex");

	begin(DCB_CMD_IEEE_SET);
	name();
	ieee = nest(DCB_ATTR_IEEE | NLA_F_NESTED);
	put(DCB_ATTR_IEEE_ETS, &ets, sizeof(ets));
	end(ieee);
	save(dir, "set-ets.hex");

	begin(DCB_CMD_IEEE_SET);
	name();
	ieee = nest(DCB_ATTR_IEEE | NLA_F_NESTED);
	put(DCB_ATTR_DCB_BUFFER, &buffer, sizeof(buffer));
	end(ieee);
	save(dir, "set-buffer.hex");

	begin(DCB_CMD_IEEE_SET);
	name();
	ieee = nest(DCB_ATTR_IEEE | NLA_F_NESTED);
	put(DCB_ATTR_IEEE_MAXRATE, &rate, sizeof(rate));
	end(ieee);
	save(dir, "set-maxrate.hex");

	begin(DCB_CMD_IEEE_SET);
	name();
	ieee = nest(DCB_ATTR_IEEE | NLA_F_NESTED);
	table = nest(APP_TRUST_TABLE | NLA_F_NESTED);
	u8(DCB_ATTR_IEEE_APP, IEEE_8021QAZ_APP_SEL_DSCP);
	u8(DCB_APP, SEL_PCP);
	end(table);
	end(ieee);
	save(dir, "set-trust.hex");
	return 0;
}
