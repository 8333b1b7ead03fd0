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
		gpu     = "3b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
		second  = "5d:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n"
		nic     = "1a:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7] (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n\tKernel driver in use: mlx5_core\n"
		drives  = "\tKernel driver in use: "
		down    = "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported\n\t\tLnkSta:\tSpeed unknown (downgraded), Width x0 (downgraded)\n"
		query   = "==============NVSMI LOG==============\n\nDriver Version                            : 580.95.05\n\nAttached GPUs                             : 1\nGPU 00000000:43:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n"
		rows    = "    Remapped Rows\n        Uncorrectable Error               : 2\n        Pending                           : No\n        Remapping Failure Occurred        : No\n    GPU Recovery Action                   : None\n"
		retired = "    Retired Pages\n        Pending Page Blacklist            : N/A\n"
		fabric  = "    Fabric\n        State                             : Completed\n        Status                            : Success\n        Health\n            Summary                       : Healthy\n            Bandwidth                     : Full\n            Route Recovery in progress    : False\n            Route Unhealthy               : False\n"
		columns = "name, pci.bus_id, ecc.mode.current, driver_version, remapped_rows.failure, retired_pages.pending\n"
		row     = "NVIDIA H100 80GB HBM3, 00000000:17:00.0, Enabled, 580.95.05, 0, [N/A]\n"
		other   = "NVIDIA H100 80GB HBM3, 00000000:65:00.0, Enabled, 580.95.05, 0, [N/A]\n"
	)
	in := strings.Replace
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
		"memory that is sound":           {query + rows + retired, report.Fine, nil},
		"a row that was not replaced":    {query + in(rows, "Occurred        : No", "Occurred        : Yes", 1) + retired, report.Fail, []string{"gpus.memory"}},
		"a row that waits":               {query + in(rows, "Pending                           : No", "Pending                           : Yes", 1) + retired, report.Warn, []string{"gpus.memory"}},
		"a page that waits":              {query + in(retired, "N/A", "Yes", 1) + rows, report.Warn, []string{"gpus.memory"}},
		"a GPU that needs a reset":       {query + in(rows, "None", "Reset", 1), report.Fail, []string{"gpus.recovery"}},
		"a fabric that is healthy":       {query + fabric, report.Fine, nil},
		"a fabric that is not healthy":   {query + in(fabric, "Healthy", "Unhealthy", 1), report.Fail, []string{"fabric.health"}},
		"a fabric with less bandwidth":   {query + in(fabric, "Full", "Degraded", 1), report.Fail, []string{"fabric.health"}},
		"a route that is not healthy":    {query + in(fabric, "Unhealthy               : False", "Unhealthy               : True", 1), report.Fail, []string{"fabric.health"}},
		"GPUs that are alike":            {columns + row + other, report.Fine, nil},
		"ECC on one of two GPUs":         {columns + row + in(other, "Enabled", "Disabled", 1), report.Warn, []string{"gpus.uniform"}},
		"a row that failed, in columns":  {columns + row + in(other, ", 0,", ", 1,", 1), report.Fail, []string{"gpus.memory"}},
		"a page that waits, in columns":  {columns + row + in(other, "[N/A]", "Yes", 1), report.Warn, []string{"gpus.memory"}},
		"rows of two nodes":              {columns + row + in(other, "580.95", "535.95", 1), report.Unjudged, nil},
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
