package paste

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/node"
)

// What nvidia-smi says when it fails: NVIDIA/open-gpu-kernel-modules issue 387 (a lost GPU), NVIDIA/nvidia-container-toolkit issue 48.
func TestSMIFails(t *testing.T) {
	for text, want := range map[string]node.NVMLState{
		"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.":  {Fault: node.NVMLDriverNotLoaded},
		"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\nMake sure that the latest NVIDIA driver is installed and running.": {Fault: node.NVMLDriverNotLoaded},
		"Failed to initialize NVML: Driver Not Loaded":                                                                                          {Fault: node.NVMLDriverNotLoaded},
		"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.161":                                             {Version: ".535.161", Fault: node.NVMLMismatch},
		"Failed to initialize NVML: Unknown Error":                                                                                              {Fault: node.NVMLUnknown},
		"Failed to initialize NVML: Insufficient Permissions":                                                                                   {Fault: node.NVMLNoPermission},
		"Failed to initialize NVML: GPU access blocked by the operating system":                                                                 {Fault: "GPU access blocked by the operating system"},
		"docker: Error response from daemon: nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown.": {Fault: node.NVMLMismatch},
		"NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n" +
			"Please also try adding directory that contains libnvidia-ml.so to your system PATH.": {Fault: node.NVMLNoLibrary},
		"$ nvidia-smi -L\nNo devices were found": {Fault: node.NVMLNoDevices},
		"No devices were found":                  {Fault: node.NVMLNoDevices},
	} {
		f, inputs := pasted(t, [2]string{"x", text + "\n"})
		if diff := cmp.Diff([]string{"nvidia-smi, which failed"}, kindsOf(inputs)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if got, _ := node.NVML.Get(f, "").Get(); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for _, other := range []string{"No devices were found by adb\n", "$ adb devices\nNo devices were found\n", "we failed to initialize NVML again\n"} {
		if f, inputs := pasted(t, [2]string{"x", other}); node.NVML.Get(f, "").IsKnown() || len(inputs) != 1 || inputs[0].Kind != "" {
			t.Errorf("%q is taken for %v", other, inputs)
		}
	}
}

// A GPU that is lost has its address, and its number where nvidia-smi says it.
func TestLostGPU(t *testing.T) {
	for line, want := range map[string]string{
		"Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.  Reboot the system to recover this GPU": "GPU is lost",
		"Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error":                                       "Unknown Error",
		"Unable to determine the device handle for GPU0000:0B:00.0: Unknown Error":                                        "Unknown Error",
		"Unable to determine the device handle for gpu 00000000:0B:00.0: GPU requires reset":                              "GPU requires reset",
		"Unable to determine the device handle for GPU3: 0000:0B:00.0: Unknown Error":                                     "Unknown Error",
		"|   3  NVIDIA A100-SXM4-80GB          On  | 00000000:0B:00.0 Off |                    0 |\n| ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 81920MiB |    ERR!      Default |\n" +
			"| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |": "nvidia-smi gets errors for what it asks of it",
	} {
		f, _ := pasted(t, [2]string{"x", line + "\n"})
		g, _ := node.GPUInfo.Get(f, "0000:0b:00.0").Get()
		given, _ := f.Inventory.Given.Get()
		if g.Fault != want || !contains(given, "gpu_fault") {
			t.Errorf("%q: fault %q, given %v", line, g.Fault, given)
		}
	}
	f, _ := pasted(t, [2]string{"x", "Unable to determine the device handle for GPU3: 0000:0B:00.0: Unknown Error\n"}, [2]string{"topo", "\tGPU0\tGPU3\tCPU Affinity\nGPU0\t X \tSYS\t0-1\nGPU3\tSYS\t X \t0-1\n"})
	if r, _ := f.Inventory.Topology().Relation("0000:0b:00.0", "GPU0").Get(); r != node.SYS {
		t.Errorf("GPU3 is another one than 0000:0b:00.0: %v", f.Inventory.PCI)
	}
}
