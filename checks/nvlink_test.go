package checks_test

import (
	"testing"

	"busbar/checks"
	"busbar/node"
	"busbar/plan/plantest"
)

func TestNVLink(t *testing.T) {
	all := `check "nvlink" "all" {}`
	links := func(n string) string { return `check "nvlink" "all" { links = ` + n + ` }` }
	// off has the second GPU with these links.
	off := func(v node.Value[node.NVLinkState]) func(*box) { return func(b *box) { b.cards[1].links = v } }
	const (
		first  = "ok nvlink.links 0000:1b:00.0 (/sys)\n"
		second = " nvlink.links 0000:2b:00.0 (/sys)\n"
		fast   = "ok nvlink.speed 0000:1b:00.0 (/sys)\n"
		fast2  = "ok nvlink.speed 0000:2b:00.0 (/sys)\n"
	)
	none := nvlinks(18, 0, upTo(18)...)
	strange := nvlinks(18, 26562)
	plantest.Run(t, checks.All(), []plantest.Case{
		judge("two links are down, and the GPU's siblings are well", all, hgx(2, off(nvlinks(18, 26562, 3, 5))), first+"drift"+second+fast+fast2, "GPU 0000:2b:00.0 (H100 80GB HBM3) has 16 NVLinks active, wanted is 18: links 3 and 5 are not\nlook for Xid 74"),
		judge("one link is down", all, hgx(2, off(nvlinks(18, 26562, 17))), first+"drift"+second+fast+fast2, "has 17 NVLinks active, wanted is 18: link 17 is not\n"),
		judge("one link is left", all, hgx(2, off(nvlinks(2, 26562, 1))), first+"drift"+second+fast+fast2, "has 1 NVLink active, wanted is 18: link 1 is not\n"),
		judge("a GPU of a board is off its NVLinks", all, hgx(2, off(none)), first+"drift"+second+fast, "GPU 0000:2b:00.0 (H100 80GB HBM3) has no NVLink active, wanted is 18\nlook whether the fabric manager runs"),
		judge("a B200 that is off the fabric", all, newBox("2901", 2, linked(18, 50000), off(none)), first+"drift"+second+fast, "GPU 0000:2b:00.0 (B200) has no NVLink active, wanted is 18"),
		judge("a GPU that says it has none", all, hgx(2, off(lacking[node.NVLinkState]())), first+"drift"+second+fast, "has no NVLink active, wanted is 18"),
		judge("the driver was told to use none", all, hgx(2, linked(18, 0, upTo(18)...), drive(func(s *node.NVIDIADriverState) { s.Parameters = known(map[string]string{"NvLinkDisable": "1"}) })), "drift nvlink.links 0000:1b:00.0 (/sys)\ndrift"+second,
			"the driver was loaded with NVreg_NvLinkDisable=1: take it out of /etc/modprobe.d"),
		judge("a bridge with two links less", all, newBox("2321", 2, linked(18, 26562, 0, 1, 4, 5, 10, 11, 16, 17)), "drift nvlink.links 0000:1b:00.0 (/sys)\ndrift"+second+fast+fast2, "has 10 NVLinks active, wanted is 12"),
		judge("more than the model has", all, newBox("20b2", 2, linked(18, 25000)), "drift nvlink.links 0000:1b:00.0 (/sys)\ndrift"+second+fast+fast2, "has 18 NVLinks active, wanted is 12"),

		judge("a bridge is wanted", links("12"), newBox("2321", 2, linked(18, 0, upTo(18)...)), "drift nvlink.links 0000:1b:00.0 (/sys)\ndrift"+second, "wanted is 12\nput the bridge between the cards, or reseat it"),
		judge("NVLink is wanted on PCIe cards", links("18"), newBox("26b9", 2), "drift nvlink.links 0000:1b:00.0 (/sys)\ndrift"+second, "GPU 0000:1b:00.0 (L40S) has no NVLink active, wanted is 18"),
		judge("none is wanted", links("0"), newBox("26b9", 1), first),
		judge("the links of the one GPU there is", links("18"), hgx(1), first+fast),
		judge("a model that is not in the table", all, newBox("9999", 2, linked(18, 26562)), "skipped nvlink.links 0000:1b:00.0 (/sys)\nskipped"+second, "GPU 0000:1b:00.0 has 18 NVLinks active, and how many are normal for a 10de:9999 is not known: say so in links"),
		judge("a model that is not in the table, and a number", links("18"), newBox("9999", 2, linked(18, 26562)), first+"ok"+second),
		// Name and id disagree: the id counts, whatever the name has in it.
		judge("a GH200 that has H200 in its name", all, newBox("2342", 2, every(func(s *node.GPUState) { s.Product = known("NVIDIA GH200 480GB") })), first+"ok"+second, "GPU 0000:1b:00.0 (GH200) has no NVLink active"),
		judge("an H100 NVL whose name is that of another H100", all, newBox("2321", 2, linked(18, 26562, 4, 5, 10, 11, 16, 17), every(func(s *node.GPUState) { s.Product = known("NVIDIA H100 80GB HBM3") })), first+"ok"+second+fast+fast2),
		judge("an L40S whose name has H100 in it", all, newBox("26b9", 2, every(func(s *node.GPUState) { s.Product = known("H100 look-alike") })), first+"ok"+second),

		judge("links at half their speed", all, hgx(2, off(nvlinks(18, 13281))), first+"ok"+second+fast+"drift nvlink.speed 0000:2b:00.0 (/sys)\n", "NVLink 0 of GPU 0000:2b:00.0 (H100 80GB HBM3) runs at 13.281 GB/s, NVLinks of generation 4 have 26.562 GB/s"),
		judge("one slow link", all, hgx(2, off(edited(strange, 7, func(l *node.NVLinkPort) { l.SpeedMBps = known(20000) }))), first+"ok"+second+fast+"drift nvlink.speed 0000:2b:00.0 (/sys)\n", "NVLink 7 of GPU 0000:2b:00.0"),
		judge("links without a rate", all, hgx(2, off(nvlinks(18, 0))), first+"ok"+second+fast+"drift nvlink.speed 0000:2b:00.0 (/sys)\n", "NVLink 0 of GPU 0000:2b:00.0 (H100 80GB HBM3) is active with a rate of 0 GB/s: it carries nothing\nlook for Xid 74"),
		judge("one link without a rate, and one whose is unknown", all, hgx(2, off(edited(edited(strange, 7, func(l *node.NVLinkPort) { l.SpeedMBps = known(0) }), 3, func(l *node.NVLinkPort) { l.SpeedMBps = denied[int]() }))),
			first+"ok"+second+fast+"drift nvlink.speed 0000:2b:00.0 (/sys)\n", "NVLink 7 of GPU 0000:2b:00.0 (H100 80GB HBM3) is active with a rate of 0"),
		judge("links without a rate, of two of a model that is not in the table", links("18"), newBox("9999", 2, linked(18, 0)), first+"ok"+second+"drift nvlink.speed 0000:1b:00.0 (/sys)\ndrift nvlink.speed 0000:2b:00.0 (/sys)\n"),
		judge("a speed that is unknown", all, hgx(2, off(edited(strange, 7, func(l *node.NVLinkPort) { l.SpeedMBps = denied[int]() }))), first+"ok"+second+fast+"unknown nvlink.speed 0000:2b:00.0 (/sys)\n", "the speed of NVLink 7 of GPU 0000:2b:00.0 is unknown"),
		judge("a state that is unknown", all, hgx(2, off(edited(strange, 7, func(l *node.NVLinkPort) { l.State = denied[string]() }))), first+"unknown"+second+fast+"unknown nvlink.speed 0000:2b:00.0 (/sys)\n", "the state of link 7 is unknown: permission denied"),
		judge("a state that is unknown, and a slow link", all, hgx(2, off(edited(edited(strange, 7, func(l *node.NVLinkPort) { l.State = denied[string]() }), 9, func(l *node.NVLinkPort) { l.SpeedMBps = known(20000) }))),
			first+"unknown"+second+fast+"drift nvlink.speed 0000:2b:00.0 (/sys)\n"),
		judge("a link at rest", all, hgx(2, off(edited(strange, 7, func(l *node.NVLinkPort) { l.State = known(node.NVLinkSleep) }))), first+"drift"+second+fast+fast2, "has 17 NVLinks active, wanted is 18: link 7 is not"),
	})
}

// edited are links of which one is edited.
func edited(v node.Value[node.NVLinkState], link int, edit func(*node.NVLinkPort)) node.Value[node.NVLinkState] {
	s, _ := v.Get()
	list := append([]node.NVLinkPort(nil), s.Links...)
	edit(&list[link])
	return known(node.NVLinkState{Links: list})
}
