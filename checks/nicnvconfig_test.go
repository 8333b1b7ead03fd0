package checks_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/checks"
	"busbar/internal/mstconfig"
	"busbar/node"
	"busbar/plan/plantest"
	"busbar/report"
)

var update = flag.Bool("update", false, "write the golden files")

const nvTool = "mstconfig -d 0000:14:00.0 -e query"

// nvConfig is the first rail's firmware configuration: NAME, running, next boot, NAME ...
func nvConfig(edit func(s *node.NVConfigState), parameters ...string) node.Answer {
	s := node.NVConfigState{Tool: "mstconfig", Parameters: map[string]mstconfig.Values{}}
	for i := 0; i < len(parameters); i += 3 {
		s.Parameters[parameters[i]] = mstconfig.Values{Default: "0", Running: parameters[i+1], NextBoot: parameters[i+2]}
	}
	if edit != nil {
		edit(&s)
	}
	return node.NVConfig.Answer("0000:14:00.0", node.Known(s, node.Source{Call: nvTool}))
}

func TestNICNVConfig(t *testing.T) {
	block := func(settings string) string {
		return `check "nic_nvconfig" "rails" {
			nics = [{ address = "0000:14:00.0" }]
			settings = { ` + settings + ` }
		}`
	}
	with := func(a node.Answer) node.Facts { return rails().With(a) }
	one := func(name, settings string, a node.Answer, want string, says ...string) plantest.Case {
		return judge(name, block(settings), with(a), want, says...)
	}
	finding := func(status, name string) string {
		return status + " nic_nvconfig.setting 0000:14:00.0 " + name + " (" + nvTool + ")\n"
	}
	const link = "LINK_TYPE_P1"
	ofMLX := func(s *node.NVConfigState) { s.Tool = "mlxconfig" }
	plantest.Run(t, checks.All(), []plantest.Case{
		one("as wanted, in all spellings", `A = "eth", B = 2, C = "ETH(2)", D = false, E = 0, F = true, "G[1]" = 7, H = "0xff"`,
			nvConfig(nil, "A", "ETH(2)", "ETH(2)", "B", "ETH(2)", "ETH(2)", "C", "ETH(2)", "ETH(2)", "D", "False(0)", "False(0)", "E", "False(0)", "False(0)",
				"F", "True(1)", "True(1)", "G", "Array[0..7]", "Array[0..7]", "G[1]", "7", "7", "H", "255", "255"),
			finding("ok", "A")+finding("ok", "B")+finding("ok", "C")+finding("ok", "D")+finding("ok", "E")+finding("ok", "F")+finding("ok", "G[1]")+finding("ok", "H"),
			"A of mlx5_1/1 (0000:14:00.0) is ETH(2)\n", "D of mlx5_1/1 (0000:14:00.0) is False(0)\n"),
		one("set, and not reset", link+` = "ETH"`, nvConfig(nil, link, "IB(1)", "ETH(2)"), finding("drift", link),
			"LINK_TYPE_P1 of mlx5_1/1 (0000:14:00.0) is IB(1), and ETH(2) after the next reset of the firmware\n"+
				"reset the firmware, which takes the NIC's links down (mstfwreset -d 0000:14:00.0 reset), or cycle the node's power; a reboot alone does not reset the firmware of every NIC\n"),
		one("set to something else since", link+` = "ETH"`, nvConfig(nil, link, "ETH(2)", "IB(1)"), finding("drift", link),
			"LINK_TYPE_P1 of mlx5_1/1 (0000:14:00.0) is ETH(2), which is lost at the next reset of the firmware: IB(1) comes then\nmstconfig -d 0000:14:00.0 set LINK_TYPE_P1=ETH\n"),
		one("wrong", link+` = "ETH(2)"`, nvConfig(ofMLX, link, "IB(1)", "IB(1)"), finding("drift", link),
			"LINK_TYPE_P1 of mlx5_1/1 (0000:14:00.0) is IB(1), wanted is ETH(2)\nmlxconfig -d 0000:14:00.0 set LINK_TYPE_P1=2, then reset the firmware, which takes the NIC's links down (mlxfwreset -d 0000:14:00.0 reset), or cycle"),
		one("wrong, and wrong otherwise after the reset", `NUM_OF_VFS = 0`, nvConfig(nil, "NUM_OF_VFS", "8", "16"), finding("drift", "NUM_OF_VFS"),
			"NUM_OF_VFS of mlx5_1/1 (0000:14:00.0) is 8, and 16 after the next reset of the firmware; wanted is 0\nmstconfig -d 0000:14:00.0 set NUM_OF_VFS=0, then"),
		one("a bool is no name and no other number", `A = true, B = false`, nvConfig(nil, "A", "IB(1)", "IB(1)", "B", "0", "0"), finding("drift", "A")+finding("drift", "B")),
		one("elements of an array", `"A[0..2]" = 128, "B[0..1]" = 1, "B[1]" = 2`,
			nvConfig(nil, "A[0]", "128", "128", "A[1]", "128", "128", "A[2]", "128", "128", "B[0]", "1", "1", "B[1]", "1", "2"),
			finding("ok", "A[0..2]")+finding("drift", "B[0..1]")+finding("drift", "B[1]")+"conflict profile.contradiction firmware parameter B[1] of 0000:14:00.0 (node.hcl:3)\n",
			"A[0..2] of mlx5_1/1 (0000:14:00.0) is 128\n", "B[0..1] of mlx5_1/1 (0000:14:00.0) is 1, which is lost at the next reset of the firmware: 1, 2 comes then\nmstconfig -d 0000:14:00.0 set 'B[0..1]=1'"),
		one("an array is no value, and has no more elements than it has", `A = 1, "A[0]" = 1, "A[8]" = 1, "B[0]" = 1, "C[0]" = 1`,
			nvConfig(func(s *node.NVConfigState) {
				s.Parameters["B"] = mstconfig.Values{Unclear: "its elements could not be read: Index 7 is out of range"}
			}, "A", "Array[0..7]", "Array[0..7]", "A[0]", "1", "1", "C", "1", "1"),
			finding("unknown", "A")+finding("ok", "A[0]")+finding("unsupported", "A[8]")+finding("unknown", "B[0]")+finding("unsupported", "C[0]"),
			"it is an array\nname its elements: \"A[0..7]\" for all of them", "has no parameter A[8]", "its elements could not be read"),
		one("the NIC lacks it", `A = 1`, nvConfig(nil, link, "ETH(2)", "ETH(2)"), finding("unsupported", "A"), "mlx5_1/1 (0000:14:00.0) has no parameter A that mstconfig shows"),
		one("whether the NIC lacks it is unknown", `A = 1`, nvConfig(func(s *node.NVConfigState) { s.Missing = "Failed to query some of the TLVs" }, link, "ETH(2)", "ETH(2)"),
			finding("unknown", "A"), "A of mlx5_1/1 (0000:14:00.0) is unknown: not all could be read: Failed to query some of the TLVs"),
		one("read only", `A = 1`, nvConfig(func(s *node.NVConfigState) {
			s.Parameters["A"] = mstconfig.Values{Running: "0", NextBoot: "0", ReadOnly: true}
		}), finding("drift", "A"), "is 0, wanted is 1\nleave it out of the profile"),
		one("values that are none", `A = 0, B = 1, C = 1, D = 0, E = 1`, nvConfig(func(s *node.NVConfigState) {
			s.Parameters["E"] = mstconfig.Values{Unclear: "it is listed twice"}
		}, "A", "0", "N/A", "B", "N/A", "1", "C", "", "1", "D", "N/A", "1"),
			finding("unknown", "A")+finding("unknown", "B")+finding("unknown", "C")+finding("drift", "D")+finding("unknown", "E"),
			"the tool shows no value for the next reset", "the firmware does not show what it runs with; after its next reset it is 1", "it is listed twice"),
		judge("unread", block(link+` = "ETH"`), rails(), "unknown nic_nvconfig.setting 0000:14:00.0 ()", "the firmware configuration of mlx5_1/1 (0000:14:00.0) is unknown: not recorded"),
		judge("another vendor's", block(link+` = "ETH"`), with(node.NVConfig.Answer("0000:14:00.0", lacking[node.NVConfigState]())), "unsupported nic_nvconfig.setting 0000:14:00.0 (/sys)"),
		judge("ports of one function", `check "nic_nvconfig" "rails" {
			nics = [{ address = "0000:14:00.0" }, { address = "0000:14:00.0" }]
			settings = { A = 1 }
		}`, with(nvConfig(nil, "A", "1", "1")), finding("ok", "A")),
		judge("no NIC known", `check "nic_nvconfig" "rails" { settings = { A = 1 } }`, plantest.Node(), "unknown nic_nvconfig.nics  ()"),
		judge("a NIC that is gone", `check "nic_nvconfig" "rails" {
			nics = [{ address = "0000:99:00.0" }]
			settings = { A = 1 }
		}`, rails(), "drift nic_nvconfig.nics 0000:99:00.0 (/sys)"),
	})
}

// A NIC may lack what a profile lives without.
func TestNICNVConfigOptional(t *testing.T) {
	blocks := plantest.Blocks(t, checks.All(), `check "nic_nvconfig" "rails" {
		nics     = [{ address = "0000:14:00.0" }, { address = "0000:24:00.0" }]
		settings = { A = 1 }
	}`)
	blocks[0].Optional = []string{"settings"}
	facts := rails().With(nvConfig(nil), node.NVConfig.Answer("0000:24:00.0", lacking[node.NVConfigState]()))
	p := plantest.Planner(checks.All()).Plan(blocks, facts)
	if code := p.ExitCode(); code != 0 || len(p.Findings) != 2 {
		t.Errorf("exit code %d: %s", code, plantest.Summarize(p))
	}
}

func TestNICNVConfigValidate(t *testing.T) {
	for settings, want := range map[string]string{
		`{ LINK_TYPE_P1 = "ETH", A = 1, "B[0..7]" = true }`: "",
		`{}`:                  "no parameter",
		`[1]`:                 "not an object",
		`{ "A B" = 1 }`:       "not a parameter",
		`{ "A[7..0]" = 1 }`:   "not a parameter",
		`{ A = "x; reboot" }`: "not a value",
		`{ A = "" }`:          "not a value",
		`{ A = 1.5 }`:         "not a value",
		`{ A = [1] }`:         "not a value",
	} {
		blocks := plantest.Blocks(t, checks.All(), `check "nic_nvconfig" "rails" { settings = `+settings+` }`)
		problems := checks.NICNVConfig{}.Validate(blocks[0])
		switch {
		case want == "" && len(problems) > 0:
			t.Errorf("%s: %+v", settings, problems)
		case want != "" && (len(problems) != 1 || problems[0].Summary != want || problems[0].Detail == ""):
			t.Errorf("%s: %+v, wanted is %q", settings, problems, want)
		}
	}
}

// How people read it.
func TestNICNVConfigReport(t *testing.T) {
	blocks := plantest.Blocks(t, checks.All(), `check "nic_nvconfig" "rails" {
		nics     = [{ address = "0000:14:00.0" }]
		settings = { LINK_TYPE_P1 = "ETH", ATS_ENABLED = false, NUM_OF_VFS = 0, PCI_WR_ORDERING = "per_mkey", MAX_ACC_OUT_READ = 44 }
	}`)
	facts := rails().With(nvConfig(nil, "LINK_TYPE_P1", "IB(1)", "ETH(2)", "ATS_ENABLED", "True(1)", "True(1)", "NUM_OF_VFS", "0", "16", "PCI_WR_ORDERING", "per_mkey(0)", "per_mkey(0)"))
	p := plantest.Planner(checks.All()).Plan(blocks, facts)
	var got bytes.Buffer
	d := report.NewDocument("verify", report.NodeOf(facts, ""), report.Profile{Name: "rails"}, p)
	if err := report.WriteVerify(&got, d, report.Style{Width: 120}); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/nic_nvconfig.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
