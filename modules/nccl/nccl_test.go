package nccl_test

import (
	"testing"

	"busbar/internal/confdir"
	"busbar/modules/nccl"
	"busbar/node"
	"busbar/plan"
	"busbar/plan/plantest"
	"busbar/plan/sink"
)

var types = []plan.Type{nccl.Type{}}

func file(text string) node.Answer {
	return node.File.Answer(sink.NCCLPath, node.Known(node.FileState{Exists: true, Text: text}, node.Source{Path: sink.NCCLPath}))
}

func TestSettings(t *testing.T) {
	const begin, end = "# BEGIN busbar\n", "# END busbar\n"
	timeout := `nccl { settings = { NCCL_IB_TIMEOUT = 22 } }`
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "no file", Blocks: `nccl { settings = { NCCL_IB_TIMEOUT = 22, NCCL_IB_HCA = "=mlx5_0" } }`, Facts: plantest.Node(),
			Texts: map[string]string{sink.NCCLPath: begin + "NCCL_IB_HCA==mlx5_0\nNCCL_IB_TIMEOUT=22\n" + end},
			Want: `
				!drift nccl.setting NCCL_IB_HCA (/etc/nccl.conf)
				!drift nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
				step write-file:/etc/nccl.conf
			`,
		},
		{
			Name: "others set it, without a final newline", Blocks: timeout, Facts: plantest.Node(file("NCCL_DEBUG=WARN\nNCCL_IB_TIMEOUT=22")),
			Want: `
				ok nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
			`,
		},
		{
			Name: "others set another value", Blocks: timeout, Facts: plantest.Node(file("NCCL_IB_TIMEOUT=18\nX=1")),
			Texts: map[string]string{sink.NCCLPath: begin + "NCCL_IB_TIMEOUT=22\n" + end + "NCCL_IB_TIMEOUT=18\nX=1"},
			Want: `
				drift info nccl.foreign_variable X (/etc/nccl.conf:2)
				!drift nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf:1)
				step write-file:/etc/nccl.conf
			`,
			After: `
				drift info nccl.foreign_variable X (/etc/nccl.conf:5)
				drift warn nccl.shadowed NCCL_IB_TIMEOUT (/etc/nccl.conf:4)
			`,
		},
		{
			Name: "others are taken over", Blocks: `nccl {
				settings  = { NCCL_IB_TIMEOUT = 22 }
				take_over = true
			}`, Facts: plantest.Node(file("A=1\r\nNCCL_IB_TIMEOUT=18\nNCCL_IB_TIMEOUT=20\nX=1")),
			Texts: map[string]string{sink.NCCLPath: begin + "NCCL_IB_TIMEOUT=22\n" + end + "A=1\r\nX=1"},
			Want: `
				drift nccl.crlf A (/etc/nccl.conf:1)
				!drift nccl.duplicate NCCL_IB_TIMEOUT (/etc/nccl.conf:3)
				drift info nccl.foreign_variable A (/etc/nccl.conf:1)
				drift info nccl.foreign_variable X (/etc/nccl.conf:4)
				!drift nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf:2)
				step write-file:/etc/nccl.conf
			`,
			After: `
				drift nccl.crlf A (/etc/nccl.conf:4)
				drift info nccl.foreign_variable A (/etc/nccl.conf:4)
				drift info nccl.foreign_variable X (/etc/nccl.conf:5)
			`,
		},
		{
			Name: "a carriage return is another value for some versions", Blocks: `nccl { settings = { NCCL_SOCKET_IFNAME = "eth0" } }`,
			Facts: plantest.Node(file("NCCL_SOCKET_IFNAME=eth0\r\n")),
			Want: `
				!drift nccl.crlf NCCL_SOCKET_IFNAME (/etc/nccl.conf:1)
				!drift nccl.setting NCCL_SOCKET_IFNAME (/etc/nccl.conf:1)
				step write-file:/etc/nccl.conf
			`,
			After: `
				drift info nccl.repeated NCCL_SOCKET_IFNAME (/etc/nccl.conf:4)
			`,
		},
		{
			Name: "carriage returns stay in other lines", Blocks: `nccl { settings = { NCCL_SOCKET_IFNAME = "eth0" } }`,
			Facts: plantest.Node(file("NCCL_SOCKET_IFNAME=eth0\r\nNCCL_NET_PLUGIN=aws\r\n")),
			Says:  []string{`and 2 lines end in one: "NCCL_SOCKET_IFNAME" is "eth0\r"`},
			Want: `
				drift nccl.crlf NCCL_SOCKET_IFNAME (/etc/nccl.conf:1)
				!drift nccl.setting NCCL_SOCKET_IFNAME (/etc/nccl.conf:1)
				step write-file:/etc/nccl.conf
			`,
			After: `
				drift nccl.crlf NCCL_NET_PLUGIN (/etc/nccl.conf:5)
				drift info nccl.repeated NCCL_SOCKET_IFNAME (/etc/nccl.conf:4)
			`,
		},
		{
			Name: "busbar's block wins over lines that contradict each other", Blocks: timeout, Facts: plantest.Node(file("NCCL_IB_TIMEOUT=18\nNCCL_IB_TIMEOUT=20\n")),
			Want: `
				!drift nccl.duplicate NCCL_IB_TIMEOUT (/etc/nccl.conf:2)
				!drift nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf:1)
				step write-file:/etc/nccl.conf
			`,
			After: `
				drift warn nccl.shadowed NCCL_IB_TIMEOUT (/etc/nccl.conf:4)
				drift warn nccl.shadowed NCCL_IB_TIMEOUT (/etc/nccl.conf:5)
			`,
		},
		{
			Name: "one setting less", Blocks: timeout, Facts: plantest.Node(file(begin + "NCCL_IB_TIMEOUT=22\nNCCL_IB_TC=106\n" + end)),
			Texts: map[string]string{sink.NCCLPath: begin + "NCCL_IB_TIMEOUT=22\n" + end},
			Want: `
				ok nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
				!drift file.stale /etc/nccl.conf (/etc/nccl.conf)
				step write-file:/etc/nccl.conf
			`,
		},
		{
			Name: "no block is left", Facts: plantest.Node(file(begin + "NCCL_IB_TIMEOUT=22\n" + end)),
			Want: `
				!drift file.stale /etc/nccl.conf (/etc/nccl.conf)
				step remove-file:/etc/nccl.conf
			`,
		},
		{
			Name: "no block is left, others have lines", Facts: plantest.Node(file(begin + "NCCL_IB_TIMEOUT=22\n" + end + "X=1")),
			Texts: map[string]string{sink.NCCLPath: "X=1"},
			Want: `
				!drift file.stale /etc/nccl.conf (/etc/nccl.conf)
				step write-file:/etc/nccl.conf
			`,
		},
		{
			Name: "an empty file of others stays", Facts: plantest.Node(file("")),
		},
		{
			Name: "a block that is broken", Blocks: timeout, Facts: plantest.Node(file("X=1\n" + begin + "NCCL_IB_TIMEOUT=22\n")),
			Want: `
				drift nccl.block  (/etc/nccl.conf:2)
				drift info nccl.foreign_variable X (/etc/nccl.conf:1)
				unknown nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
			`,
		},
		{
			Name: "an empty list is withheld", Blocks: `nccl { settings = { NCCL_IB_HCA = "=", NCCL_IB_TIMEOUT = 22 } }`, Facts: plantest.Node(),
			Texts: map[string]string{sink.NCCLPath: begin + "NCCL_IB_TIMEOUT=22\n" + end},
			Want: `
				unknown nccl.empty_list NCCL_IB_HCA (node.hcl:1)
				!drift nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
				step write-file:/etc/nccl.conf
			`,
			After: `
				unknown nccl.empty_list NCCL_IB_HCA (node.hcl:1)
			`,
		},
		{
			Name: "files that settings name", Blocks: `nccl { settings = { NCCL_TOPO_FILE = "/opt/topo.xml", NCCL_GRAPH_FILE = "/opt/graph.xml", NCCL_TUNER_CONFIG_FILE = "tuner.conf" } }`,
			Facts: plantest.Node(node.Path.Answer("/opt/topo.xml", node.Known(node.PathState{Exists: true, Type: "file"}, node.Source{})),
				node.Path.Answer("/opt/graph.xml", node.Known(node.PathState{}, node.Source{}))),
			Says: []string{"NCCL_GRAPH_FILE names /opt/graph.xml, which does not exist"},
			Want: `
				drift nccl.file_missing NCCL_GRAPH_FILE (/opt/graph.xml)
				ok nccl.file_missing NCCL_TOPO_FILE (/opt/topo.xml)
				!drift nccl.setting NCCL_GRAPH_FILE (/etc/nccl.conf)
				!drift nccl.setting NCCL_TOPO_FILE (/etc/nccl.conf)
				!drift nccl.setting NCCL_TUNER_CONFIG_FILE (/etc/nccl.conf)
				step write-file:/etc/nccl.conf
			`,
			After: `
				drift info nccl.file NCCL_GRAPH_FILE (/etc/nccl.conf:2)
				drift info nccl.file NCCL_TOPO_FILE (/etc/nccl.conf:3)
				drift nccl.file_missing NCCL_GRAPH_FILE (/opt/graph.xml)
			`,
		},
		{
			Name: "a file that cannot be looked at", Blocks: `nccl { settings = { NCCL_TOPO_FILE = "/opt/topo.xml" } }`,
			Facts: plantest.Node(node.Path.Answer("/opt/topo.xml", node.Unknown[node.PathState]("permission denied", node.Source{Path: "/opt"}))),
			Want: `
				unknown nccl.file_missing NCCL_TOPO_FILE (/opt)
				!drift nccl.setting NCCL_TOPO_FILE (/etc/nccl.conf)
				step write-file:/etc/nccl.conf
			`,
			After: `
				drift info nccl.file NCCL_TOPO_FILE (/etc/nccl.conf:2)
				unknown nccl.file_missing NCCL_TOPO_FILE (/opt)
			`,
		},
		{
			Name: "users and the environment win", Blocks: `nccl { settings = { NCCL_IB_TIMEOUT = 22, NCCL_DEBUG = "WARN" } }`,
			Facts: plantest.Node(file("NCCL_IB_TIMEOUT=22\nNCCL_DEBUG=WARN\n"), plantest.Files(node.NCCLUserFiles, map[string]string{
				"/root/.nccl.conf": "NCCL_IB_TC=1\nNCCL_IB_TIMEOUT=14\n", "/etc/environment": "PATH=/bin\nexport NCCL_DEBUG=\"INFO\"\nNCCL_IB_TIMEOUT='22'\nNCCL_X\n", "/home/a/.nccl.conf": "?",
			})),
			Says: []string{"/root/.nccl.conf is read before /etc/nccl.conf and sets NCCL_IB_TIMEOUT=14", "/etc/environment sets the environment of logins, which wins over /etc/nccl.conf and sets NCCL_DEBUG=INFO"},
			Want: `
				unknown info nccl.overridden  (/home/a/.nccl.conf)
				drift warn nccl.overridden NCCL_DEBUG (/etc/environment:2)
				drift warn nccl.overridden NCCL_IB_TIMEOUT (/root/.nccl.conf:2)
				ok nccl.setting NCCL_DEBUG (/etc/nccl.conf)
				ok nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
			`,
		},
		{
			Name: "unknown", Blocks: timeout, Facts: plantest.Node(
				node.File.Answer(sink.NCCLPath, node.Unknown[node.FileState]("permission denied", node.Source{Path: sink.NCCLPath})),
				node.NCCLUserFiles.Answer("", node.Unknown[[]confdir.File]("permission denied", node.Source{Path: "/root"}))),
			Want: `
				unknown nccl.lines  (/etc/nccl.conf)
				unknown info nccl.overridden  (/root)
				unknown nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
			`,
		},
		{
			Name: "two lines of others that contradict each other", Blocks: timeout, Facts: plantest.Node(file("NCCL_IB_TIMEOUT=22\nNCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\r\n")),
			Want: `
				drift nccl.duplicate NCCL_DEBUG (/etc/nccl.conf:3)
				ok nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
			`,
		},
		{
			Name: "a read-only file system", Blocks: timeout, Facts: plantest.Node(node.Mount.Answer("/etc", node.Known(node.MountState{Point: "/", ReadOnly: true}, node.Source{}))),
			Want: `
				unsupported nccl.setting NCCL_IB_TIMEOUT (/etc/nccl.conf)
			`,
		},
	})
}

// TestFound: a carriage return that belongs to a value is not hidden.
func TestFound(t *testing.T) {
	blocks := plantest.Blocks(t, types, `nccl { settings = { NCCL_SOCKET_IFNAME = "eth0" } }`)
	p := plantest.Planner(types).Plan(blocks, plantest.Node(file("NCCL_SOCKET_IFNAME=eth0\r\n")))
	for _, f := range p.Findings {
		if f.Found != "NCCL_SOCKET_IFNAME=eth0\r" {
			t.Errorf("%s: found %q", f.ID, f.Found)
		}
	}
	if len(p.Findings) == 0 {
		t.Error("nothing was found")
	}
}

func TestNames(t *testing.T) {
	f := plantest.Node(file("NCCL_IB_HCA=mlx5_1\nNCCL_SOCKET_IFNAME=bond0\n"))
	inv := f.Inventory
	inv.RDMA = node.Known([]node.RDMADevice{{Name: "mlx5_1"}, {Name: "mlx5_10"}}, node.Source{})
	inv.Netdevs = node.Known([]node.Netdev{{Name: "bond0"}, {Name: "bond0.2973"}, {Name: "lo"}}, node.Source{})
	plantest.Run(t, types, []plantest.Case{
		{
			Name: "names are prefixes", Blocks: `nccl { version = "2.26.2" }`, Facts: f.WithInventory(inv),
			Want: `
				drift warn nccl.hca_prefix NCCL_IB_HCA (/etc/nccl.conf:1)
				drift warn nccl.interface_prefix NCCL_SOCKET_IFNAME (/etc/nccl.conf:2)
			`,
		},
	})
}

func TestValidate(t *testing.T) {
	for text, want := range map[string]int{
		`nccl { settings = { NCCL_IB_TIMEOUT = 22, NCCL_IB_HCA = "=" } }`:               0,
		`nccl { settings = { NCCL_P2P_DISABLE = true, A = null, B = 1.5, C = ["x"] } }`: 4,
		`nccl { settings = { NCCL_IB_TIMEOUT = "022" } }`:                               1,
		`nccl { settings = "x" }`:                       1,
		"nccl {\nversion = \"2.26\"\n}":                 1,
		"nccl {\nversion = \"2.26.2\"\n}":               0,
		`nccl { settings = { NCCL_IB_GID_INDEX = 3 } }`: 1,
	} {
		if problems := (nccl.Type{}).Validate(plantest.Blocks(t, types, text)[0]); len(problems) != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
