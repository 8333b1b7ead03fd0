package mstconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/mstconfig"
)

func output(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type values = map[string]mstconfig.Values

func same(v string) mstconfig.Values {
	return mstconfig.Values{Default: v, Running: v, NextBoot: v}
}

func TestParse(t *testing.T) {
	const atomic = "PCI_ATOMIC_DISABLED_EXT_ATOMIC_ENABLED(0)"
	elements := values{}
	for _, index := range "01234567" {
		elements["ESWITCH_HAIRPIN_DESCRIPTORS["+string(index)+"]"] = same("128")
	}
	for name, want := range map[string]values{
		"connectx4lx.txt": {
			"MEMIC_SIZE_LIMIT": same("_256KB(1)"), "ROCE_NEXT_PROTOCOL": same("254"), "NUM_OF_VFS": {Default: "8", Running: "0", NextBoot: "16"}, "NUM_OF_PF": same("2"),
			"PCI_DOWNSTREAM_PORT_OWNER": same("Array[0..15]"), "PCI_ATOMIC_MODE": same(atomic), "ROCE_CC_PRIO_MASK_P1": same("255"), "CNP_DSCP_P1": same("48"),
			"LLDP_NB_DCBX_P1": same("False(0)"), "LLDP_NB_RX_MODE_P1": same("ALL(2)"), "ROCE_CONTROL": {Default: "ROCE_ENABLE(2)", Running: "DEVICE_DEFAULT(0)", NextBoot: "ROCE_ENABLE(2)"},
			"PCI_WR_ORDERING": same("per_mkey(0)"), "LEGACY_BOOT_PROTOCOL": {Default: "PXE(1)", Running: "PXE(1)", NextBoot: "NONE(0)"},
			"EXP_ROM_UEFI_x86_ENABLE": same("True(1)"), "ADVANCED_PCI_SETTINGS": same("False(0)"), "SAFE_MODE_ENABLE": same("True(1)"),
		},
		"connectx5.txt": {"MEMIC_BAR_SIZE": same("0"), "MEMIC_SIZE_LIMIT": same("_256KB(1)"), "HOST_CHAINING_MODE": same("DISABLED(0)")},
		"connectx5-wide.txt": {
			"IB_ROUTING_MODE_P2": same("LID(1)"), "PHY_FEC_OVERRIDE_P1": same("DEVICE_DEFAULT(0)"), "PF_NUM_PF_MSIX": same("63"),
			"ROCE_CONTROL": {Default: "ROCE_ENABLE(2)", Running: "DEVICE_DEFAULT(0)", NextBoot: "ROCE_ENABLE(2)"}, "PCI_WR_ORDERING": same("per_mkey(0)"),
		},
		"connectx4-array.txt": {
			"KEEP_IB_LINK_UP_P2": {Default: "False(0)", Running: "True(1)", NextBoot: "True(1)"}, "KEEP_LINK_UP_ON_BOOT_P2": same("False(0)"),
			"ESWITCH_HAIRPIN_DESCRIPTORS": same("Array[0..7]"), "MEMIC_SIZE_LIMIT": {Default: "_256KB(1)", Running: "_256KB(1)", NextBoot: "DISABLED(0)"},
		},
		"connectx4-elements.txt": elements,
		"connectx7-nextboot.txt": {
			"MODULE_SPLIT_M0": {NextBoot: "Array[0..15]"}, "MEMIC_BAR_SIZE": {NextBoot: "0"}, "MEMIC_SIZE_LIMIT": {NextBoot: "_256KB(1)"},
			"MEMIC_ATOMIC": {NextBoot: "MEMIC_ATOMIC_ENABLE(2)"}, "DPA_AUTHENTICATION": {NextBoot: "True(1)"}, "HOST_CHAINING_DESCRIPTORS": {NextBoot: "Array[0..7]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mstconfig.Parse(output(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(mstconfig.Table{Parameters: want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What mlxcfg_ui.cpp can print and no recorded output shows.
func TestParseRows(t *testing.T) {
	const columns = "Configurations:    Default    Current    Next Boot\n"
	for _, test := range []struct {
		name, text string
		want       mstconfig.Table
	}{
		{"read only", columns + " RO     UPTIME         0     7     7 \n*RO     A        1 2 3\n\nThe 'RO' shows parameters which are for read only and cannot be changed\n", mstconfig.Table{Parameters: values{
			"UPTIME": {Default: "0", Running: "7", NextBoot: "7", ReadOnly: true}, "A": {Default: "1", Running: "2", NextBoot: "3", ReadOnly: true},
		}}},
		{"no spaces between wide values", columns + "         ROCE_CONTROL         DEVICE_DEFAULT(0)DEVICE_DEFAULT(0)ROCE_ENABLE(2)  \n", mstconfig.Table{Parameters: values{
			"ROCE_CONTROL": {Default: "DEVICE_DEFAULT(0)", Running: "DEVICE_DEFAULT(0)", NextBoot: "ROCE_ENABLE(2)"},
		}}},
		{"no current column", "Configurations:       Default      Next Boot\n   A    1   2\nDevice Firmware does not support reading current configurations\n", mstconfig.Table{Parameters: values{"A": {Default: "1", NextBoot: "2"}}}},
		{"some could not be read", columns + "   A    N/A   1    1\n-E- Failed to query some of the TLVs:\n    Failed to query the default values of the following TLVs:\n    NV_A_P0_M0 NV_B_P0_M0 \n\n", mstconfig.Table{
			Parameters: values{"A": {Default: "N/A", Running: "1", NextBoot: "1"}},
			Missing:    "Failed to query some of the TLVs: Failed to query the default values of the following TLVs: NV_A_P0_M0 NV_B_P0_M0",
		}},
		{"a text with spaces", columns + "   A   a b(1)  c(2)  d(3)\n   B   1   1   1\n", mstconfig.Table{Parameters: values{
			"A": {Unclear: `these are not the values of 3 columns: "a b(1)  c(2)  d(3)"`}, "B": same("1"),
		}}},
		{"twice", columns + "   A   1 1 1\n   A  1 1 1\n   B   1 1 1\n   B  2 1 1\n", mstconfig.Table{Parameters: values{"A": same("1"), "B": {Unclear: "it is listed twice, with different values"}}}},
		{"a name that fills its column", columns + "   A_VERY_LONG_NAMEFalse(0)   1  1\n   B   1   1   1\n", mstconfig.Table{
			Parameters: values{"B": same("1")}, Missing: `line 2 is not understood: "A_VERY_LONG_NAMEFalse(0)   1  1"`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := mstconfig.Parse(test.text)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Error(err, diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"-E- Failed to open the device\n": "Failed to open the device",
		"\nDevice #1:\n----------\n\nDevice type:    ConnectX3\n\nConfigurations:      Next Boot\n-E- Failed to query device current configuration\n": "Failed to query device current configuration",
		"FATAL - crspace read (0xf0014) failed: Operation not permitted\n":                                                                            "no table of parameters: FATAL - crspace read (0xf0014) failed: Operation not permitted",
		" \n":                               "no output",
		"-E- " + strings.Repeat("ab ", 300): strings.Repeat("ab ", 133) + "a…",
	} {
		_, err := mstconfig.Parse(text)
		var own mstconfig.Error
		if !errors.As(err, &own) || err.Error() != want {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	one := output(t, "connectx5.txt")
	for _, text := range []string{one + one, "Device #1:\nDevice #2:\n"} {
		var own mstconfig.Error
		if _, err := mstconfig.Parse(text); err == nil || errors.As(err, &own) {
			t.Errorf("two devices: %v", err)
		}
	}
}

func TestEqual(t *testing.T) {
	for _, test := range []struct {
		printed string
		equal   []string
		other   []string
	}{
		{"ETH(2)", []string{"ETH", "eth", "2", "0x2", "ETH(2)"}, []string{"IB", "1", "", "ETH(1)", "(2)", "true"}},
		{"True(1)", []string{"true", "True", "1"}, []string{"false", "0", "2"}},
		{"False(0)", []string{"false", "0"}, []string{"true", "1", "N/A"}},
		{"IB(1)", []string{"1"}, []string{"true"}},
		{"255", []string{"255", "0xff", "0xFF"}, []string{"25", "ff", "-1"}},
		{"_256KB(1)", []string{"_256KB", "_256kb", "1"}, []string{"256"}},
		{"2(1)", []string{"1"}, []string{"2"}},
		{"0xDEADBEEF00112233445566", []string{"0xdeadbeef00112233445566"}, []string{"0xdeadbeef"}},
		{"0x10(16)", []string{"0x10", "16"}, []string{"10"}},
		{"N/A", nil, []string{"0", "", "false"}},
		{"", nil, []string{"0", "false"}},
	} {
		for _, want := range test.equal {
			if !mstconfig.Equal(test.printed, want) {
				t.Errorf("%s is not %s", test.printed, want)
			}
		}
		for _, want := range test.other {
			if mstconfig.Equal(test.printed, want) {
				t.Errorf("%s is %q", test.printed, want)
			}
		}
	}
}

func TestElements(t *testing.T) {
	for name, want := range map[string][]string{
		"LINK_TYPE_P1": {"LINK_TYPE_P1"}, "A[3]": {"A[3]"}, "A[2..4]": {"A[2]", "A[3]", "A[4]"}, "A[2..2]": {"A[2]"},
		"": nil, "A B": nil, "A[4..2]": nil, "A[]": nil, "A[0..]": nil, "A[1": nil, "1A": nil, "A[0..9999]": nil, "A=1": nil, "A[0..7]x": nil, "A\n": nil,
	} {
		got, err := mstconfig.Elements(name)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%q: %v %v", name, got, err)
		}
	}
	if base, ok := mstconfig.ArrayName("A[3]"); base != "A" || !ok {
		t.Error(base, ok)
	}
	if _, ok := mstconfig.ArrayName("A"); ok {
		t.Error("A is no element")
	}
	table, err := mstconfig.Parse(output(t, "connectx7-nextboot.txt"))
	if diff := cmp.Diff([]string{"HOST_CHAINING_DESCRIPTORS[0..7]", "MODULE_SPLIT_M0[0..15]"}, table.Arrays()); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if mstconfig.IsArray("ETH(2)") || !mstconfig.IsArray("Array[1..32]") {
		t.Error("what is an array")
	}
}

func TestAssignment(t *testing.T) {
	for _, test := range [][3]string{
		{"LINK_TYPE_P1", "ETH", "LINK_TYPE_P1=ETH"}, {"LINK_TYPE_P1", "ETH(2)", "LINK_TYPE_P1=2"}, {"A[0..7]", "128", "'A[0..7]=128'"},
	} {
		if got := mstconfig.Assignment(test[0], test[1]); got != test[2] {
			t.Error(got)
		}
	}
	for want, ok := range map[string]bool{"ETH": true, "0x1f": true, "ETH(2)": true, "per_mkey": true, "": false, "a b": false, "$(reboot)": false, "a=b": false, "'": false, "1\n": false} {
		if (mstconfig.CheckValue(want) == nil) != ok {
			t.Errorf("%q: %v", want, mstconfig.CheckValue(want))
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 6 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		f.Add(output(f, filepath.Base(name)), "1")
	}
	f.Add("-E- Failed to open the device\n", "ETH")
	f.Add("Configurations: Next Boot\n*RO A Array[0..7]\nDevice #1", "true")
	f.Fuzz(func(t *testing.T, text, want string) {
		table, err := mstconfig.Parse(text)
		if (err == nil) != (len(table.Parameters) > 0) {
			t.Fatalf("%v: %v", table, err)
		}
		for name, v := range table.Parameters {
			if _, err := mstconfig.Elements(name); err != nil {
				t.Errorf("parameter %q: %v", name, err)
			}
			if (v.Unclear == "") == (v.NextBoot == "") {
				t.Errorf("%q: %+v", name, v)
			}
			if v.NextBoot != "" && !mstconfig.Equal(v.NextBoot, v.NextBoot) {
				t.Errorf("%q is not itself", v.NextBoot)
			}
			mstconfig.Equal(v.Running, want)
			if strings.ContainsAny(v.NextBoot, " \n") {
				t.Errorf("%q", v.NextBoot)
			}
		}
		for _, array := range table.Arrays() {
			if _, err := mstconfig.Elements(array); err != nil && !strings.Contains(err.Error(), "no range") {
				t.Errorf("%q: %v", array, err)
			}
		}
		if mstconfig.CheckValue(want) == nil && strings.ContainsAny(mstconfig.Assignment("A", want), " \t\n'\"$;&|<>\\`()") {
			t.Errorf("%q is no word", mstconfig.Assignment("A", want))
		}
	})
}
