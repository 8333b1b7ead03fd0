package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/plan"
	"busbar/report"
)

// Faults that a single text shows, and texts like them that show none: the verdict, and the ids of what is wrong.
func TestDiagnoseFaults(t *testing.T) {
	const (
		gpu    = "3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
		second = "5d:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
		nic    = "1a:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7] (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n\tKernel driver in use: mlx5_core\n"
		drives = "\tKernel driver in use: "
		down   = "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported\n\t\tLnkSta:\tSpeed unknown (downgraded), Width x0 (downgraded)\n"
	)
	for name, c := range map[string]struct {
		text    string
		verdict report.Verdict
		ids     []string
	}{
		"a GPU that answers":             {gpu + drives + "nvidia\n" + second + drives + "nvidia\n", report.Fine, nil},
		"a GPU off the bus":              {strings.Replace(gpu, "rev a1", "rev ff) (prog-if ff", 1) + "\t!!! Unknown header type 7f\n" + drives + "nvidia\n", report.Fail, []string{"pcie_link.down"}},
		"a GPU off the bus, in one line": {strings.Replace(gpu, "rev a1", "rev ff", 1) + second, report.Fail, []string{"pcie_link.down"}},
		"a NIC off the bus":              {nic + gpu, report.Fail, []string{"pcie_link.down"}},
		"nouveau has a GPU":              {gpu + drives + "nouveau\n" + second + drives + "nvidia\n", report.Fail, []string{"driver.bound"}},
		"vfio-pci has one of two GPUs":   {gpu + drives + "vfio-pci\n" + second + drives + "nvidia\n", report.Warn, []string{"driver.bound"}},
		"vfio-pci has all GPUs":          {gpu + drives + "vfio-pci\n" + second + drives + "vfio-pci\n", report.Fine, nil},
		"a GPU's link is down":           {gpu + down, report.Fail, []string{"pcie_link.down"}},
		"a virtual function":             {gpu + "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed 32GT/s, Width x16\n" + strings.Replace(gpu, "3b:00.0", "3b:01.4", 1) + down, report.Fine, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := diagnosis(t, pasteFile(t, c.text))
			var ids []string
			for _, f := range d.Findings {
				if f.Status != plan.OK && f.Status != plan.Skipped && f.Status != plan.Undetermined && f.Severity != plan.Info {
					ids = append(ids, f.ID)
				}
			}
			slices.Sort(ids)
			if diff := cmp.Diff(c.ids, slices.Compact(ids)); diff != "" || d.Verdict != c.verdict {
				t.Errorf("verdict %s, want %s; ids (-want +got):\n%s%v", d.Verdict, c.verdict, diff, complaintsOf(d))
			}
		})
	}
}

// pasteFile is a file that holds a text.
func pasteFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "paste.txt")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
