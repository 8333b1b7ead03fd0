package kernlog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseKmsg(t *testing.T) {
	log := ParseKmsg("6,3964,206764307,-;nvidia-nvswitch2: open (major=510)\n" +
		"3,3966,227996636,-,caller=T7;NVRM: API mismatch: the client 'nvidia-smi' (pid 9)\\x0aNVRM: has the version 5\\xc3\\xa4\n SUBSYSTEM=pci\n DEVICE=+pci:0000:1b:00.0\n" +
		"30,3967,227996637,c;systemd[1]: Started a back\\x5cslash.\nno record\n1;2\nx,1,1,-;no\n")
	want := []Record{
		{Priority: new(6), When: When{Seconds: new(206.764307)}, Text: "nvidia-nvswitch2: open (major=510)"},
		{Priority: new(3), When: When{Seconds: new(227.996636)}, Text: "NVRM: API mismatch: the client 'nvidia-smi' (pid 9)\nNVRM: has the version 5ä"},
		{Priority: new(6), When: When{Seconds: new(227.996637)}, Text: `systemd[1]: Started a back\slash.`},
	}
	if diff := cmp.Diff(want, log.Records); diff != "" {
		t.Error(diff)
	}
	if log.Lost == nil || *log.Lost != 3965 { // 3964 before the first, one between
		t.Errorf("lost %v", log.Lost)
	}
	if whole := ParseKmsg("5,0,0,-;Linux version 6.8\n5,1,0,-;Command line\n"); whole.Lost == nil || *whole.Lost != 0 {
		t.Error("nothing is missing of a log that begins with 0")
	}
	if nothing := ParseKmsg(""); nothing.Lost != nil || nothing.Records != nil {
		t.Error("nothing was read")
	}
}

// The forms of one message, as dmesg of util-linux, journalctl and rsyslog print them.
func TestParseText(t *testing.T) {
	const text = "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus."
	at := When{Seconds: new(1234.5)}
	for line, want := range map[string]Record{
		text:                                                                   {},
		"[ 1234.500000] " + text:                                               {When: at},
		"[ 1234.500000][    T7] " + text:                                       {When: at},
		"[1234.500000] " + text:                                                {When: at},
		"<3>[ 1234.500000] " + text:                                            {When: at, Priority: new(3)},
		"<11>" + text:                                                          {Priority: new(3)},
		"kern  :err   : [ 1234.500000] " + text:                                {When: at, Priority: new(3)},
		"kern  :emerg : " + text:                                               {Priority: new(0)},
		"[Sun Feb 23 16:24:18 2025] " + text:                                   {When: When{Clock: "Sun Feb 23 16:24:18 2025"}},
		"[Feb 3 16:24] " + text:                                                {When: When{Clock: "Feb 3 16:24"}},
		"[Feb23 16:24] " + text:                                                {When: When{Clock: "Feb23 16:24"}},
		"[  +0.000012] " + text:                                                {When: When{Clock: "+0.000012"}},
		"\x1b[32m[ 1234.500000] \x1b[0m" + text:                                {When: at},
		"Feb 23 16:24:18 gpu-01 kernel: " + text:                               {When: When{Clock: "Feb 23 16:24:18"}},
		"Feb  3 16:24:18.123456 gpu-01 kernel: " + text:                        {When: When{Clock: "Feb  3 16:24:18.123456"}},
		"Sep 24 20:31:42 ubu kernel: [ 1849.889955] " + text:                   {When: When{Clock: "Sep 24 20:31:42"}},
		"[ 1234.500000] gpu-01 kernel: " + text:                                {When: at},
		"2025-02-23T16:24:18+0000 gpu-01 kernel: " + text:                      {When: When{Clock: "2025-02-23T16:24:18+0000"}},
		"2025-02-23T16:24:18.285060+00:00 gpu-01 kernel: " + text:              {When: When{Clock: "2025-02-23T16:24:18.285060+00:00"}},
		"Sun 2025-02-23 16:24:18 UTC gpu-01 kernel: " + text:                   {When: When{Clock: "Sun 2025-02-23 16:24:18 UTC"}},
		"2025-02-23T16:24:18,285060+00:00 " + text:                             {When: When{Clock: "2025-02-23T16:24:18,285060+00:00"}},
		"kern  :warn  : 2025-01-21T04:41:44,285060+00:00 " + text:              {When: When{Clock: "2025-01-21T04:41:44,285060+00:00"}, Priority: new(4)},
		"[99999999999999999999999999999999999999.500000] " + text:              {},
		"Feb 23 16:24:18 gpu-01 kernel: " + strings.Repeat(" ", 2) + text + "": {When: When{Clock: "Feb 23 16:24:18"}},
	} {
		want.Text = text
		log := ParseText(line + "\r\n\n")
		for i := range log.Records {
			log.Records[i].Text = strings.TrimSpace(log.Records[i].Text)
		}
		if diff := cmp.Diff([]Record{want}, log.Records); diff != "" {
			t.Errorf("%q: %s", line, diff)
		}
		if log.Lost != nil {
			t.Errorf("%q: text does not say what is lost", line)
		}
	}
	several := ParseText("[ 1.0] a\n       b\nc\n\td\n")
	if len(several.Records) != 2 || several.Records[0].Text != "a\nb" || several.Records[1].Text != "c\nd" {
		t.Errorf("%+v", several.Records)
	}
	unit := ParseText("Feb 23 16:24:18 gpu-01 systemd[1]: sysinit.target: Job a.service/start deleted to break ordering cycle starting with b/start\n[ 1.0] h systemd[1]: x\n")
	if got := unit.Records[0].Text; !strings.HasPrefix(got, "systemd[1]: sysinit.target: Job") || unit.Records[1].Text != "systemd[1]: x" {
		t.Errorf("%+v", unit.Records)
	}
}

func TestWhen(t *testing.T) {
	for want, w := range map[string]When{"": {}, "227.9 s after boot": {Seconds: new(227.9)}, "Feb 3 16:24": {Clock: "Feb 3 16:24"}} {
		if w.String() != want {
			t.Errorf("%q, want %q", w, want)
		}
	}
}

// Lines as trackers, mailing lists and the sources of the kernel and of the driver have them.
func TestCollect(t *testing.T) {
	event := func(kind Kind, device string, code int, name string) Event {
		return Event{Kind: kind, Device: device, Code: code, Name: name, Count: 1}
	}
	for _, c := range []struct {
		text string
		want []Event
	}{
		{"NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU4 GSP!", []Event{event(Xid, "0000:9b:00.0", 119, "")}},
		{"NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No", []Event{event(Xid, "0000:01:00.0", 94, "")}},
		{"NVRM: Xid (0000:03:00): 13, 0002 00000000", []Event{event(Xid, "0000:03:00.0", 13, "")}},
		{"NVRM: Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", []Event{event(Xid, "0008:01:00.0", 154, "GPU Reset Required")}},
		{"pcieport 0000:30:03.0: DPC: containment event, status:0x0005 source:0x3400", []Event{event(Containment, "0000:30:03.0", 0, "")}},
		{"dpc 0000:00:03.2:pcie008: DPC containment event, status:0x1f01 source:0x0000", []Event{event(Containment, "0000:00:03.2", 0, "")}},
		{"pcieport 0000:00:1c.0: AER: Multiple Uncorrectable (Non-Fatal) error message received from 0000:73:00.1", []Event{event(AER, "0000:73:00.1", 0, "non-fatal")}},
		{"pcieport 0000:00:03.2: AER: Multiple Uncorrected (Fatal) error received: 0000:3b:00.0", []Event{event(AER, "0000:3b:00.0", 0, "fatal")}},
		{"pcieport 0000:00:03.2: AER: Multiple Corrected error received: 0000:3b:00.0", nil},
		{"pcieport 0000:00:01.4: pciehp: Slot(16): Link Down", []Event{event(LinkDown, "0000:00:01.4", 0, "")}},
		{"pcieport 0015:00:00.0: pciehp: Slot(21): Link Down/Up ignored", nil},
		{"mlx5_core 0000:5e:00.0: 126.024 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:5d:00.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)", []Event{event(SlowLink, "0000:5e:00.0", 0, "mlx5_core")}},
		{"NVRM: Xid (PCI:0000:66:00): abc, pid=2280636", nil},
		{"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 46 egress non-posted PRIV error (First)", []Event{event(SXid, "0000:c1:00.0", 12028, "non-fatal")}},
		{"nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", []Event{event(SXid, "0000:00:00.0", 20034, "fatal")}},
		{"NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", []Event{event(GPULost, "0000:01:00.0", 0, "")}},
		{"NVRM: The NVIDIA GPU 0000:41:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.", []Event{event(GPULost, "0000:41:00.0", 0, "")}},
		{"NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x62:0x55:2449)\nNVRM: GPU 0000:1b:00.0: rm_init_adapter failed, device minor number 0", []Event{{Kind: GPUInit, Device: "0000:1b:00.0", Count: 2}}},
		{"NVRM: None of the NVIDIA devices were initialized.", []Event{event(GPUInit, "", 0, "")}},
		{"NVRM: The NVIDIA probe routine was not called for 8 device(s).", []Event{event(GPUTaken, "", 0, "")}},
		{
			"[2140090.470492] NVRM: API mismatch: the client has the version 470.129.06, but\n                 NVRM: this kernel module has the version 470.103.01.  Please\n                 NVRM: make sure that this kernel module and all NVIDIA driver",
			[]Event{{Kind: VersionMismatch, Name: "470.129.06 and 470.103.01", Count: 1, First: When{Seconds: new(2140090.470492)}, Last: When{Seconds: new(2140090.470492)}}},
		},
		{"NVRM: API mismatch: the client 'nvidia-smi' (pid 77)\nNVRM: has the version 595.84, but this kernel module has\nNVRM: the version 595.71.05.  Please make sure that this\nNVRM: kernel module and all", []Event{event(VersionMismatch, "", 0, "595.84 and 595.71.05")}},
		{"NVRM: dma-buf attach failed: PCI topology not supported for dma-buf", []Event{event(DMABufRefused, "", 0, "")}},
		{"nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing", []Event{event(PeerMemory, "", 0, "invalid context")}},
		{"nvidia-peermem nv_mem_client_init:436 ERROR failed to register nv_mem", []Event{event(PeerMemory, "", 0, "")}},
		{"pcieport 0000:14:01.0: AER: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)", []Event{event(AER, "0000:14:01.0", 0, "corrected")}},
		{"nvidia 0000:1b:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)", []Event{event(AER, "0000:1b:00.0", 0, "non-fatal")}},
		{"mlx5_core 0000:5e:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)", []Event{event(AER, "0000:5e:00.0", 0, "fatal")}},
		{"AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040 flags=0x0020]", []Event{event(IOMMUFault, "", 0, "")}},
		{"AMD-Vi: Event logged [IO_PAGE_FAULT device=0a:00.0 domain=0x001d address=0x000000000637c000 flags=0x0000]", []Event{event(IOMMUFault, "0000:0a:00.0", 0, "")}},
		{"nvidia 0000:28:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0035 address=0x7fffff00000 flags=0x0000]", []Event{event(IOMMUFault, "0000:28:00.0", 0, "")}},
		{"DMAR: DRHD: handling fault status reg 2\nDMAR: [DMA Write NO_PASID] Request device [03:00.1] fault addr 0xfffc0000 [fault reason 0x02] Present bit in context entry is clear", []Event{event(IOMMUFault, "0000:03:00.1", 0, "")}},
		{"DMAR: [DMA Read] Request device [00:05.0] PASID ffffffff fault addr 76406000 [fault reason 06] PTE Read access is not set", []Event{event(IOMMUFault, "0000:00:05.0", 0, "")}},
		{"arm-smmu-v3 arm-smmu-v3.0.auto: event 0x10 received:", []Event{event(IOMMUFault, "", 0, "")}},
		{"arm-smmu-v3 arm-smmu-v3.16.auto: event: F_TRANSLATION client: 0009:01:00.0 sid: 0x100 ssid: 0x0 iova: 0x0 ipa: 0x0", []Event{event(IOMMUFault, "0009:01:00.0", 0, "")}},
		{"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:3b:00.0)", []Event{event(BAR, "0000:3b:00.0", 1, "")}},
		{"pci 0000:3b:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]\npci 0000:3b:00.0: BAR 1: failed to assign [mem size 0x2000000000 64bit pref]", []Event{{Kind: BAR, Device: "0000:3b:00.0", Code: 1, Count: 2}}},
		{"pci 0000:3b:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: can't assign; no space", []Event{event(BAR, "0000:3b:00.0", 1, "")}},
		{"pci 0000:3b:00.0: BAR 1 [mem size 0x2000000000 64bit pref]: can't assign; no space\npci 0000:3b:00.0: BAR 1 [mem 0x6300c0000000-0x6320bfffffff 64bit pref]: assigned", nil},
		{"pci 0000:3b:00.0: BAR 1: no space for [mem size 0x20 64bit pref]\npci 0000:3b:00.0: BAR 1: assigned [mem 0x63-0x65 64bit pref]", nil},
		{"pci 0006:03:00.0: VF BAR 0 [mem size 0x02000000 64bit pref]: can't assign; no space\npci 0002:01:00.0: BAR 4 [io  size 0x0020]: failed to assign\npci 0000:00:00.0: bridge window [mem size 0x00b00000]: failed to assign", nil},
		{"mlx5_core 0000:d2:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count", []Event{event(MLX5, "0000:d2:00.0", 0, "health")}},
		{"mlx5_core 0000:03:00.0: wait_func:1195:(pid 1967079): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource", []Event{event(MLX5, "0000:03:00.0", 0, "command-timeout")}},
		{"mlx5_core 0000:5c:00.0: mlx5_pcie_event:301:(pid 268269): Detected insufficient power on the PCIe slot (27W).", []Event{event(MLX5, "0000:5c:00.0", 0, "power")}},
		{"mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, Bus stuck(I2C or data shorted)", []Event{event(MLX5, "0000:5c:00.0", 0, "cable")}},
		{"mlx5_core 0000:9a:00.0: temp_warn:161:(pid 0): High temperature on sensors with bit set 0 1", []Event{event(MLX5, "0000:9a:00.0", 0, "temperature")}},
		{"mlx5_core 0000:5c:00.0: mlx5_cmd_out_err:838:(pid 268269): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5), syndrome (0x305684), err(-22)", nil},
		{"nvidia_fs: no symbol version for nvidia_p2p_dma_unmap_pages", []Event{event(ModuleUnversioned, "", 0, "nvidia_fs")}},
		{"nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\nnvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)", []Event{{Kind: ModuleSymbol, Name: "nvidia_peermem", Count: 2}}},
		{"vboxdrv: Unknown symbol foo (err -2)", nil},
		{"Loading of unsigned module is rejected", []Event{event(ModuleUnsigned, "", 0, "")}},
		{"nvidia: Loading of module with unavailable key is rejected", []Event{event(ModuleUnsigned, "", 0, "nvidia")}},
		{"Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7", []Event{event(ModuleUnsigned, "", 0, "")}},
		{"nvidia: unknown parameter 'NVreg_UsePageAttributeTable' ignored", []Event{event(ParameterUnknown, "", 0, "nvidia.NVreg_UsePageAttributeTable")}},
		{"snd: unknown parameter 'x' ignored", nil},
		{"AMD-Vi: Unknown option - 'on'\niommu: Default domain type: Passthrough (set via kernel command line)", []Event{event(OptionUnknown, "", 0, "amd_iommu=on"), event(DMADomain, "", 0, "Passthrough")}},
		{"PCI: Unknown option `noacs'", []Event{event(OptionUnknown, "", 0, "pci=noacs")}},
		{"PCI: Can't parse ACS command line parameter", []Event{event(OptionUnknown, "", 0, "pci=config_acs or pci=disable_acs_redir")}},
		{"x2apic: IRQ remapping doesn't support X2APIC mode\nsmpboot: CPU 112 has invalid APIC ID 100. Aborting bringup\nsmpboot: CPU 113 has invalid APIC ID 102. Aborting bringup", []Event{event(NoX2APIC, "", 0, ""), {Kind: NoX2APIC, Name: "cpu", Count: 2}}},
		{"systemd[1]: sysinit.target: Found ordering cycle on systemd-resolved.service/start\nsystemd[1]: sysinit.target: Job systemd-resolved.service/start deleted to break ordering cycle starting with sysinit.target/start", []Event{event(OrderingCycle, "", 0, "systemd-resolved.service")}},
		{
			"pt_main_thread[2536443]: segfault at 7f797fe00000 ip 00007f7c7ac69996 sp 00007f7c12fd7c30 error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]",
			[]Event{event(Segfault, "", 0, "libnccl.so.2")},
		},
		{"bash[12]: segfault at 0 ip 0000000000400996 sp 00007ffc12fd7c30 error 4 in libc.so.6[7f7c7ac00000+d3d3000]", nil},
		{"systemd[1]: Breaking ordering cycle by deleting job a.service/start", []Event{event(OrderingCycle, "", 0, "a.service")}},
	} {
		got, dropped := Collect(ParseText(c.text))
		for i := range got {
			if got[i].Text == "" {
				t.Errorf("%q: no text", c.text)
			}
			got[i].Text = ""
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" || dropped != 0 {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
}

// Like lines are one event, whose last one says what of Xid 154 holds.
func TestCollectCounts(t *testing.T) {
	events, _ := Collect(ParseText(`[   10.000000] NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
[  117.984502] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Non-fatal, Link 60 Minion Link DLREQ interrupt
[  117.985304] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Severity 0 Engine instance 60 Sub-engine instance 00
[  117.986807] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Data {0x0000003c, 0x0000003c, 0x00000000}
[  120.000000] NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)
`))
	want := []Event{
		{Kind: Xid, Device: "0000:9b:00.0", Code: 154, Name: "None", Count: 2, First: When{Seconds: new(10.0)}, Last: When{Seconds: new(120.0)}, Text: "NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"},
		{Kind: SXid, Device: "0000:08:00.0", Code: 22013, Name: "non-fatal", Count: 3, First: When{Seconds: new(117.984502)}, Last: When{Seconds: new(117.986807)}, Text: "nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Non-fatal, Link 60 Minion Link DLREQ interrupt"},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
}

func TestCollectIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range maxEvents + 7 {
		fmt.Fprintf(&text, "NVRM: Xid (PCI:0000:9b:00): %d, %s\n", i, strings.Repeat("ä", maxText))
	}
	events, dropped := Collect(ParseText(text.String()))
	if len(events) != maxEvents || dropped != 7 {
		t.Errorf("%d events, %d dropped", len(events), dropped)
	}
	if n := len(events[0].Text); n > maxText+3 || !utf8.ValidString(events[0].Text) {
		t.Errorf("%d bytes: %q", n, events[0].Text)
	}
}

func FuzzCollect(f *testing.F) {
	f.Add("3,5,1,-;NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n")
	f.Add("[ 1.0] NVRM: API mismatch: the client has the version 470.129.06, but\n   NVRM: this kernel module has the version 470.103.01.  Please\n")
	f.Add("pci 0000:3b:00.0: BAR 1: no space for [mem size 0x20 64bit pref]\npci 0000:3b:00.0: BAR 1: assigned [mem 0x63-0x65 64bit pref]")
	f.Add("DMAR: [DMA Read] Request device [:::.] fault\nkern  :err : <3>[+1.0] Feb 1 01:01:01 h kernel: x")
	f.Fuzz(func(t *testing.T, text string) {
		for _, log := range []Log{ParseKmsg(text), ParseText(text)} {
			events, dropped := Collect(log)
			if len(events) > maxEvents || dropped < 0 {
				t.Errorf("%d events, %d dropped", len(events), dropped)
			}
			for _, e := range events {
				if e.Count < 1 || len(e.Text) > maxText+3 || e.Device != "" && e.Device != pci(e.Device) {
					t.Errorf("%+v", e)
				}
			}
			if _, err := json.Marshal(events); err != nil {
				t.Error(err)
			}
		}
		var ofText, ofKmsg Collector
		for line := range strings.Lines(text) {
			ofText.TextLine(line)
			ofKmsg.KmsgLine(strings.TrimSuffix(line, "\n"))
		}
		for _, c := range []struct {
			log  Log
			line *Collector
		}{{ParseText(text), &ofText}, {ParseKmsg(text), &ofKmsg}} {
			want, dropped := Collect(c.log)
			events, alsoDropped := c.line.Events()
			if diff := cmp.Diff(want, events); diff != "" || dropped != alsoDropped || len(c.log.Records) != c.line.Records() {
				t.Errorf("line by line (-want +got):\n%s", diff)
			}
		}
	})
}

// TestPatternsCompile: what stands in event.go is compiled by the first line that asks.
func TestPatternsCompile(t *testing.T) {
	for _, p := range patterns {
		if p.form.MatchString("") {
			t.Errorf("%s: an empty line is one", p.kind)
		}
	}
}
