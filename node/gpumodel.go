package node

import (
	"slices"
	"strings"
)

// NVLinkPeers is what the NVLinks of a GPU model lead to.
type NVLinkPeers int

// What NVLinks lead to.
const (
	// NVLinkNone: the model has no NVLink.
	NVLinkNone NVLinkPeers = iota
	// NVLinkBoard: other GPUs of the board, straight or through NVSwitches that are PCI functions (IsNVSwitch).
	NVLinkBoard
	// NVLinkFifth: NVSwitches of the fifth generation on the board, which are no PCI functions.
	NVLinkFifth
	// NVLinkBridge: the card beside it, if somebody put a bridge on the two.
	NVLinkBridge
	// NVLinkRack: NVSwitches in other trays of the rack, if there are any.
	NVLinkRack
)

// GPUModel is what is normal for a model of NVIDIA's data-centre GPUs.
type GPUModel struct {
	// Device is the PCI device id, Product the name without what differs among boards of that id.
	Device  string
	Product string
	Peers   NVLinkPeers
	// Links is how many NVLinks are active when all are well, 0 where that is not known. The GPU may have more: of the
	// 18 of an H100 PCIe a bridge uses 12.
	Links int
	// Generation of the NVLinks, and the least rate of one in MB/s as node.NVLinkPort has it; 0 where that is
	// not known.
	Generation int
	SpeedMBps  int
	// PCIe is the generation that the GPU can, 0 where that is not known.
	PCIe int
	// C2C: NVLink connects it to its processor (Grace).
	C2C bool
}

// gpuModels by device id. Products and ids are those of the list in NVIDIA/open-gpu-kernel-modules 595.45.04 (README.md), of V100 those of
// pci.ids. Links and rates are from NVIDIA's data sheets and from what nvidia-smi nvlink -s and topo -m print on such nodes:
// V100 (NCCL issue 246), A100 (NCCL issue 1505), A800 (NCCL issue 933: NV8), RTX A6000 and A40 (14.062 GB/s over a bridge), H100 (NCCL issue 1264), H100 PCIe and
// NVL (azurehpc-health-checks issue 162: 12 of 18), H200 and H20 (sglang issue 4572), B200 (vllm issue 16336, cluster-toolkit issue 5942), GB200 (sglang issue 11208).
var gpuModels = []GPUModel{
	{Device: "1db1", Product: "Tesla V100-SXM2-16GB", Peers: NVLinkBoard, Links: 6, Generation: 2, SpeedMBps: 25781, PCIe: 3},
	{Device: "1db5", Product: "Tesla V100-SXM2-32GB", Peers: NVLinkBoard, Links: 6, Generation: 2, SpeedMBps: 25781, PCIe: 3},
	{Device: "1db8", Product: "Tesla V100-SXM3-32GB", Peers: NVLinkBoard, Links: 6, Generation: 2, SpeedMBps: 25781, PCIe: 3},
	{Device: "20b0", Product: "NVIDIA A100-SXM4-40GB", Peers: NVLinkBoard, Links: 12, Generation: 3, SpeedMBps: 25000, PCIe: 4},
	{Device: "20b2", Product: "NVIDIA A100-SXM4-80GB", Peers: NVLinkBoard, Links: 12, Generation: 3, SpeedMBps: 25000, PCIe: 4},
	{Device: "20b3", Product: "NVIDIA A100-SXM-64GB", Peers: NVLinkBoard, Links: 12, Generation: 3, SpeedMBps: 25000, PCIe: 4},
	{Device: "20b5", Product: "NVIDIA A100 80GB PCIe", Peers: NVLinkBridge, Links: 12, Generation: 3, SpeedMBps: 25000, PCIe: 4},
	{Device: "20b7", Product: "NVIDIA A30", Peers: NVLinkBridge, Links: 4, Generation: 3, PCIe: 4},
	{Device: "20bd", Product: "NVIDIA A800-SXM4-40GB", Peers: NVLinkBoard, Links: 8, Generation: 3, SpeedMBps: 25000, PCIe: 4},
	{Device: "20f1", Product: "NVIDIA A100-PCIE-40GB", Peers: NVLinkBridge, Links: 12, Generation: 3, SpeedMBps: 25000, PCIe: 4},
	{Device: "20f3", Product: "NVIDIA A800-SXM4-80GB", Peers: NVLinkBoard, Links: 8, Generation: 3, SpeedMBps: 25000, PCIe: 4},
	{Device: "20f5", Product: "NVIDIA A800 80GB PCIe", Peers: NVLinkBridge, Generation: 3, PCIe: 4},
	{Device: "2230", Product: "NVIDIA RTX A6000", Peers: NVLinkBridge, Links: 4, Generation: 3, SpeedMBps: 14062, PCIe: 4},
	{Device: "2235", Product: "NVIDIA A40", Peers: NVLinkBridge, Links: 4, Generation: 3, SpeedMBps: 14062, PCIe: 4},
	{Device: "2236", Product: "NVIDIA A10", PCIe: 4},
	{Device: "2237", Product: "NVIDIA A10G", PCIe: 4},
	{Device: "230e", Product: "NVIDIA H20 NVL16", Peers: NVLinkRack, Generation: 4, PCIe: 5},
	{Device: "2321", Product: "NVIDIA H100 NVL", Peers: NVLinkBridge, Links: 12, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "2322", Product: "NVIDIA H800 PCIe", Peers: NVLinkBridge, Generation: 4, PCIe: 5},
	{Device: "2324", Product: "NVIDIA H800", Peers: NVLinkBoard, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "2329", Product: "NVIDIA H20", Peers: NVLinkBoard, Links: 18, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "232c", Product: "NVIDIA H20-3e", Peers: NVLinkBoard, Links: 18, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "2330", Product: "NVIDIA H100 80GB HBM3", Peers: NVLinkBoard, Links: 18, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "2331", Product: "NVIDIA H100 PCIe", Peers: NVLinkBridge, Links: 12, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "2335", Product: "NVIDIA H200", Peers: NVLinkBoard, Links: 18, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "2339", Product: "NVIDIA H100", Peers: NVLinkBoard, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "233a", Product: "NVIDIA H800 NVL", Peers: NVLinkBridge, Generation: 4, PCIe: 5},
	{Device: "233b", Product: "NVIDIA H200 NVL", Peers: NVLinkBridge, Generation: 4, SpeedMBps: 26562, PCIe: 5},
	{Device: "2342", Product: "NVIDIA GH200", Peers: NVLinkRack, Links: 18, Generation: 4, SpeedMBps: 26562, PCIe: 5, C2C: true},
	{Device: "2348", Product: "NVIDIA GH200 144G HBM3e", Peers: NVLinkRack, Links: 18, Generation: 4, SpeedMBps: 26562, PCIe: 5, C2C: true},
	{Device: "25b6", Product: "NVIDIA A2 or A16", PCIe: 4},
	{Device: "26b1", Product: "NVIDIA RTX 6000 Ada Generation", PCIe: 4},
	{Device: "26b5", Product: "NVIDIA L40", PCIe: 4},
	{Device: "26b9", Product: "NVIDIA L40S", PCIe: 4},
	{Device: "26ba", Product: "NVIDIA L20", PCIe: 4},
	{Device: "27b6", Product: "NVIDIA L2", PCIe: 4},
	{Device: "27b8", Product: "NVIDIA L4", PCIe: 4},
	{Device: "2901", Product: "NVIDIA B200", Peers: NVLinkFifth, Links: 18, Generation: 5, SpeedMBps: 50000, PCIe: 5},
	{Device: "2941", Product: "NVIDIA GB200", Peers: NVLinkRack, Links: 18, Generation: 5, SpeedMBps: 50000, C2C: true},
	{Device: "2bb1", Product: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", PCIe: 5},
	{Device: "2bb4", Product: "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", PCIe: 5},
	{Device: "2bb5", Product: "NVIDIA RTX PRO 6000 Blackwell Server Edition", PCIe: 5},
	{Device: "3182", Product: "NVIDIA B300 SXM6 AC", Peers: NVLinkFifth, Links: 18, Generation: 5, SpeedMBps: 50000, PCIe: 6},
	{Device: "31c2", Product: "NVIDIA GB300", Peers: NVLinkRack, Links: 18, Generation: 5, SpeedMBps: 50000, C2C: true},
}

// GPUDevice is the PCI device id, four hex digits, of a product as NVIDIA's tools call it, "NVIDIA H200", with NVIDIA in front or
// without; empty for one that is not in the table.
func GPUDevice(product string) string {
	for _, m := range gpuModels {
		if m.Product == product || m.Product == "NVIDIA "+product || strings.TrimPrefix(product, "NVIDIA ") == m.Product {
			return m.Device
		}
	}
	return ""
}

// Model is what is normal for the GPU, and false for one that is not in the table.
func (g GPU) Model() (GPUModel, bool) {
	i := slices.IndexFunc(gpuModels, func(m GPUModel) bool { return "10de:"+m.Device == g.PCIID })
	if i < 0 {
		return GPUModel{}, false
	}
	return gpuModels[i], true
}

// KnowsLinks reports whether it is known how many active NVLinks are normal.
func (m GPUModel) KnowsLinks() bool { return m.Peers == NVLinkNone || m.Links > 0 }

// NormalLinks reports whether n active NVLinks are a normal number, where that is known: all, or none where nobody put a
// bridge on the card or the tray is no part of a rack.
func (m GPUModel) NormalLinks(n int) bool {
	if n == 0 {
		return m.Peers == NVLinkNone || m.Peers == NVLinkBridge || m.Peers == NVLinkRack
	}
	return n == m.Links
}
