package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"busbar/internal/mstconfig"
	"busbar/node"
)

// tools makes a directory of programs; each is the body of a shell script, which finds recorded output in $TESTDATA and
// notes its arguments in $CALLS.
func tools(t testing.TB, programs map[string]string) (dir, calls string) {
	t.Helper()
	dir, calls = t.TempDir(), filepath.Join(t.TempDir(), "calls")
	testdata, err := filepath.Abs("../../internal/mstconfig/testdata")
	must(t, err)
	for name, body := range programs {
		script := "#!/bin/sh\nTESTDATA='" + testdata + "'\necho \"$@\" >>'" + calls + "'\n" + body + "\n"
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	return dir, calls
}

// asking are the drivers of a tree, with programs.
func asking(t testing.TB, more map[string]string, programs ...string) drivers {
	t.Helper()
	return drivers{files: files{root: tree(t, railTree(more)), running: true}, programs: programs}
}

func TestNVConfig(t *testing.T) {
	const elements = `if [ "$5" ]; then cat "$TESTDATA/connectx4-elements.txt"; else cat "$TESTDATA/connectx4-array.txt"; fi`
	dir, calls := tools(t, map[string]string{"mstconfig": elements, "mlxconfig": "exit 1"})
	v := decodeValue[node.NVConfigState](asking(t, nil, t.TempDir(), dir).ask(node.NVConfig.Query(rail)))
	want := node.NVConfigState{Tool: "mstconfig", Parameters: map[string]mstconfig.Values{
		"KEEP_IB_LINK_UP_P2":          {Default: "False(0)", Running: "True(1)", NextBoot: "True(1)"},
		"KEEP_LINK_UP_ON_BOOT_P2":     {Default: "False(0)", Running: "False(0)", NextBoot: "False(0)"},
		"ESWITCH_HAIRPIN_DESCRIPTORS": {Default: "Array[0..7]", Running: "Array[0..7]", NextBoot: "Array[0..7]"},
		"MEMIC_SIZE_LIMIT":            {Default: "_256KB(1)", Running: "_256KB(1)", NextBoot: "DISABLED(0)"},
	}}
	for _, index := range "01234567" {
		want.Parameters["ESWITCH_HAIRPIN_DESCRIPTORS["+string(index)+"]"] = mstconfig.Values{Default: "128", Running: "128", NextBoot: "128"}
	}
	known(t, v, want)
	if got := v.Source().Call; got != "mstconfig -d 0000:17:00.0 -e query" {
		t.Error(got)
	}
	asked, err := os.ReadFile(calls)
	must(t, err)
	if got := string(asked); got != "-d 0000:17:00.0 -e query\n-d 0000:17:00.0 -e query ESWITCH_HAIRPIN_DESCRIPTORS[0..7]\n" {
		t.Errorf("the tool was called with %s", got)
	}
}

// What the tool answers where it answers in part.
func TestNVConfigInPart(t *testing.T) {
	const some = `cat "$TESTDATA/connectx5.txt"; echo "-E- Failed to query some of the TLVs:"; exit 3`
	dir, _ := tools(t, map[string]string{"mlxconfig": some})
	state, _ := asking(t, nil, dir).nvConfig(rail).Get()
	if len(state.Parameters) != 3 || state.Tool != "mlxconfig" || state.Missing != "Failed to query some of the TLVs:" {
		t.Errorf("%+v", state)
	}
	dir, _ = tools(t, map[string]string{"mstconfig": `cat "$TESTDATA/connectx5.txt"; exit 3`})
	if state, _ := asking(t, nil, dir).nvConfig(rail).Get(); len(state.Parameters) != 3 || state.Missing != "exit status 3" {
		t.Errorf("%+v", state)
	}
	dir, _ = tools(t, map[string]string{"mstconfig": `if [ "$5" ]; then echo "-E- Index 7 is out of range"; exit 3; fi; cat "$TESTDATA/connectx4-array.txt"`})
	state, _ = asking(t, nil, dir).nvConfig(rail).Get()
	if got := state.Parameters["ESWITCH_HAIRPIN_DESCRIPTORS"].Unclear; len(state.Parameters) != 4 || got != "its elements could not be read: Index 7 is out of range (exit status 3)" {
		t.Errorf("%+v", state)
	}
}

func TestNVConfigUnknown(t *testing.T) {
	const refused = `echo "-E- Failed to open the device"; exit 3`
	for _, test := range []struct {
		name, tool, why string
		more            map[string]string
	}{
		{"no tool", "", "it takes mstconfig (package mstflint) or mlxconfig (NVIDIA's MFT), and neither is installed", nil},
		{"refused", refused, "mstconfig: Failed to open the device (exit status 3)", nil},
		{"refused without lockdown", refused, "(exit status 3)", map[string]string{"sys/kernel/security/lockdown": "[none] integrity confidentiality\n"}},
		{"lockdown", refused, "the device (exit status 3); the kernel is locked down (integrity), which keeps programs from PCI devices", map[string]string{"sys/kernel/security/lockdown": "none [integrity] confidentiality\n"}},
		{"complains on stderr", `echo "cannot open the database" >&2; exit 1`, "mstconfig: no table of parameters: cannot open the database (exit status 1)", nil},
		{"says nothing", "exit 0", "mstconfig: no output", nil},
		{"two devices", `cat "$TESTDATA/connectx5.txt" "$TESTDATA/connectx5.txt"`, "a second table", nil},
		{"asleep", refused, "without power (D3cold)", map[string]string{"sys/devices/pci0000:15/0000:15:01.0/" + rail + "/power_state": "D3cold\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			programs := map[string]string{}
			if test.tool != "" {
				programs["mstconfig"] = test.tool
			}
			dir, _ := tools(t, programs)
			v := asking(t, test.more, dir).nvConfig(rail)
			unknownAs(t, v, test.why)
			if !strings.HasSuffix(v.Reason(), test.why) && test.name == "refused without lockdown" {
				t.Error(v.Reason())
			}
		})
	}
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "mstconfig"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "mlxconfig"), nil, 0o644))
	unknownAs(t, asking(t, nil, dir).nvConfig(rail), "neither is installed")
	must(t, os.Chmod(filepath.Join(dir, "mlxconfig"), 0o755))
	unknownAs(t, asking(t, nil, dir).nvConfig(rail), "mlxconfig: ")
}

// Where the PCI function cannot be got at, the kernel's fwctl is asked, by tools that read through it without leave to write.
func TestNVConfigThroughFWCtl(t *testing.T) {
	tool := func(version string) string {
		return `case "$1 $2" in -v*) echo "mstconfig, ` + version + `, built on Apr 01 2026, 00:00:00. Git SHA Hash: N/A";;
"-d /dev/fwctl/fwctl1") cat "$TESTDATA/connectx5.txt";; *) echo "-E- Failed to open the device"; exit 3;; esac`
	}
	more := map[string]string{
		"sys/class/fwctl/fwctl0/device": "-> ../../../devices/pci0000:15/0000:15:01.0", "sys/class/fwctl/fwctl1/device": "-> ../../../devices/pci0000:15/0000:15:01.0/" + rail,
		"sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
	}
	for _, version := range []string{"mstflint 4.36.0", "mft 4.40.1-5", "mstflint 5.0.0"} {
		dir, _ := tools(t, map[string]string{"mstconfig": tool(version)})
		v := asking(t, more, dir).nvConfig(rail)
		if state, _ := v.Get(); len(state.Parameters) != 3 || v.Source().Call != "mstconfig -d /dev/fwctl/fwctl1 -e query" {
			t.Errorf("%s: %+v (%s)", version, v, v.Source())
		}
	}
	for _, version := range []string{"mstflint 4.35.0", "mstflint 3.99.1", "odd"} {
		dir, calls := tools(t, map[string]string{"mstconfig": tool(version)})
		unknownAs(t, asking(t, more, dir).nvConfig(rail), "the kernel is locked down (integrity), which keeps programs from PCI devices; mstflint 4.36 and newer could read through /dev/fwctl/fwctl1")
		asked, err := os.ReadFile(calls)
		must(t, err)
		if strings.Contains(string(asked), "fwctl") {
			t.Errorf("%s: the tool was called with %s", version, asked)
		}
	}
	dir, _ := tools(t, map[string]string{"mstconfig": strings.ReplaceAll(tool("mstflint 4.36.0"), "fwctl1\"", "fwctl9\"")})
	unknownAs(t, asking(t, more, dir).nvConfig(rail), "mstconfig: Failed to open the device (exit status 3)")
}

// Nobody is asked about what has no such configuration, and a directory tree runs no program.
func TestNVConfigWithout(t *testing.T) {
	const other, virtual = "0000:18:00.0", "0000:17:00.1"
	root := tree(t, railTree(pciTree(
		function{above: "pci0000:15/0000:15:01.0", address: other, ids: "8086 1592 8086 0001 020000"},
		function{above: "pci0000:15/0000:15:01.0", address: virtual, ids: "15b3 101e 15b3 0023 020000", physfn: rail},
	)))
	for key, want := range map[string]string{
		rail: "a directory tree does not answer for its drivers", "0000:99:00.0": "there is no PCI function 0000:99:00.0", "eth0": "is no PCI address DDDD:BB:DD.F",
	} {
		v := ask(t, root, node.NVConfig, key)
		unknownAs(t, v, want)
		if v.IsUnsupported() {
			t.Errorf("%s is unsupported", key)
		}
	}
	for key, want := range map[string]string{other: "only NICs of NVIDIA have it", virtual: "a virtual function has none of its own"} {
		v := ask(t, root, node.NVConfig, key)
		unknownAs(t, v, want)
		if !v.IsUnsupported() {
			t.Errorf("%s is not unsupported", key)
		}
	}
}
