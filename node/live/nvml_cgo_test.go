//go:build cgo

package live

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"busbar/node"
)

// stub is a library with few of NVML's symbols and the fabric's structure in version 2.
const stub = `
#include <stdlib.h>
#include <string.h>
#include "nvml.h"
static int gpu[2]; // a device handle is the address of one
#define NUMBER(d) ((int *)d.handle == gpu ? 6 : 7)
nvmlReturn_t nvmlInit_v2(void) { const char *v = getenv("STUB_INIT"); return v ? atoi(v) : 0; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t r) { return r == NVML_ERROR_NOT_SUPPORTED ? "Not Supported" : r == NVML_ERROR_LIB_RM_VERSION_MISMATCH ? "Driver/library version mismatch" : "Other"; }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *v, unsigned n) { strncpy(v, "13.580.159.04", n); return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned n) { strncpy(v, "580.159.04", n); return NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *s) { s->environment = 2; s->ccFeature = 1; s->devToolsMode = 0; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *d) { d->handle = (void *)&gpu[id[9] == '6' ? 0 : 1]; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *v, unsigned n) { strncpy(v, NUMBER(d) == 6 ? "six" : "seven", n); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *v) { *v = NUMBER(d); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *now, unsigned *pending) { *now = 0; *pending = 1; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, nvmlEnableState_t *now, nvmlEnableState_t *pending) { return NVML_ERROR_NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *m) { m->bar1Total = 1ULL << 38; m->bar1Used = 1 << 20; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p) { memset(p, 0, sizeof *p); p->pciDeviceId = 0x233510de; p->pciSubSystemId = 0x18bf10de; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *v) {
	v->nvmlReturn = NVML_SUCCESS; v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	if (v->fieldId == NVML_FI_DEV_NVLINK_LINK_COUNT) v->value.uiVal = 2;
	else if (v->fieldId == NVML_FI_DEV_NVLINK_GET_STATE) v->value.uiVal = v->scopeId == 0;
	else if (v->fieldId == NVML_FI_DEV_NVLINK_GET_SPEED) { v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG; v->value.ullVal = 26562; }
	else v->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
	return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t d, unsigned link, unsigned *v) { *v = 6; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned link, nvmlIntNvLinkDeviceType_t *v) { *v = NVML_NVLINK_DEVICE_TYPE_SWITCH; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, nvmlPciInfo_t *p) { memset(p, 0xff, sizeof *p); return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t i, nvmlGpuP2PStatus_t *s) { *s = a.handle == b.handle ? NVML_P2P_STATUS_UNKNOWN : i == NVML_P2P_CAPS_INDEX_ATOMICS ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfoV_t *p) {
	nvmlGpuFabricInfo_v2_t *f = (nvmlGpuFabricInfo_v2_t *)p;
	if (f->version != nvmlGpuFabricInfo_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memset(f->clusterUuid, 0, 16); f->clusterUuid[15] = 4;
	f->status = NVML_SUCCESS; f->cliqueId = 4026; f->state = NVML_GPU_FABRIC_STATE_COMPLETED; f->healthMask = 0x1aa;
	return NVML_SUCCESS;
}
`

// stubLibrary compiles stub with the nvml.h of go-nvml.
func stubLibrary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	header, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml").Output()
	must(t, err)
	source, object := filepath.Join(dir, "stub.c"), filepath.Join(dir, "libnvidia-ml.so.1")
	must(t, os.WriteFile(source, []byte(stub), 0o600))
	cmd := exec.Command("gcc", "-shared", "-fPIC", "-w", "-DNVML_NO_UNVERSIONED_FUNC_DEFS=1", "-I"+strings.TrimSpace(string(header)), "-o", object, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return object
}

// stubDrivers asks a stub, whose nvmlInit returns init, about a tree. A process has the symbols of the first stub for good.
func stubDrivers(t *testing.T, init string) drivers {
	t.Helper()
	t.Setenv("STUB_INIT", init)
	lib, err := openNVML("libnvidia-ml-absent.so.1", stubLibrary(t))
	must(t, err)
	return drivers{files: files{root: gpuTree(t), running: true}, nvml: func() (nvml, error) { return lib, nil }}
}

// What the library lacks is unknown, and does not end the process; structures are understood in the version that it knows.
func TestLibrary(t *testing.T) {
	d := stubDrivers(t, "0")
	known(t, d.nvmlLibrary(""), node.NVMLState{Version: "13.580.159.04", Driver: value("580.159.04")})
	s, _ := d.gpuState(gpuB).Get()
	known(t, s.Product, "seven")
	known(t, s.Minor, 7)
	known(t, s.MIG, false)
	known(t, s.MIGPending, true)
	known(t, s.BAR1Bytes, uint64(1)<<38)
	unknownAs(t, s.ComputeMode, "this driver's NVML lacks nvmlDeviceGetComputeMode")
	if unknownAs(t, s.ECC, "Not Supported"); !s.ECC.IsUnsupported() {
		t.Error("ECC is not unsupported")
	}
	known(t, s.PCIID, "10de:2335")
	links, _ := d.nvLinks(gpuA).Get()
	if len(links.Links) != 2 {
		t.Fatalf("%+v", links)
	}
	known(t, links.Active(), 1)
	known(t, links.Links[0].SpeedMBps, 26562)
	known(t, links.Links[0].Version, "4.0")
	known(t, links.Links[0].Remote, node.NVLinkToSwitch)
	unknownAs(t, links.Links[0].RemoteAddress, node.HiddenRemote)
	known(t, d.p2p(""), node.P2PState{GPUs: []string{gpuA, gpuB}, Pairs: []node.P2PPair{
		{From: gpuA, To: gpuB, Read: value("OK"), Write: value("OK"), NVLink: value("OK"), Atomics: value("NS")},
		{From: gpuB, To: gpuA, Read: value("OK"), Write: value("OK"), NVLink: value("OK"), Atomics: value("NS")},
	}})
	known(t, d.gpuFabric(gpuA), node.GPUFabricState{
		State: node.FabricCompleted, Status: node.FabricSuccess, Clique: 4026, ClusterUUID: "00000000-0000-0000-0000-000000000004", Health: value(node.FabricHealth(0x1aa)),
		Summary: node.Unsupported[string]("this driver's NVML lacks nvmlDeviceGetGpuFabricInfoV version 3", node.Source{}),
	})
	known(t, d.confidentialComputing(""), node.ConfidentialComputingState{
		Environment: "production", Enabled: true, MultiGPU: node.Unknown[string]("this driver's NVML lacks nvmlSystemGetConfComputeSettings", node.Source{}),
	})
}

// A library that does not fit the driver still says which one it is.
func TestLibraryMismatch(t *testing.T) {
	d := stubDrivers(t, "18")
	s, _ := d.nvmlLibrary("").Get()
	if s.Version != "13.580.159.04" {
		t.Errorf("%+v", s)
	}
	unknownAs(t, s.Driver, "Driver/library version mismatch")
	unknownAs(t, d.nvLinks(gpuA), "Driver/library version mismatch")
	unknownAs(t, d.confidentialComputing(""), "Driver/library version mismatch")
}

func TestLibraryAbsent(t *testing.T) {
	if _, err := openNVML("libnvidia-ml-absent.so.1"); err == nil || !strings.Contains(err.Error(), "libnvidia-ml.so.1 is neither where the loader looks") {
		t.Errorf("%v", err)
	}
}
