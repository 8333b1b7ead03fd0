package paste

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"busbar/internal/pciregs"
	"busbar/node"
)

// What nvidia-smi prints without a subcommand, with -L, with -q, with --query-gpu=... --format=csv, and nvlink -s.

// gpuLine is GPU N: PRODUCT (UUID: GPU-...), of nvidia-smi -L and nvlink -s.
var gpuLine = expression(`^GPU (\d{1,3}): (.+) \(UUID: (GPU-[0-9a-f]{8}-[0-9a-f-]{27})\)$`)

// migLine is a MIG device below its GPU, MIG 1g.10gb Device 0: (UUID: MIG-...).
var migLine = expression(`^\s+MIG .*Device\s+\d+: \(UUID: MIG-`)

// linkLine is Link N: 26.562 GB/s or <inactive>.
var linkLine = expression(`^\s+Link (\d{1,2}): (?:(\d{1,4}(?:\.\d{1,6})?) GB/s|<inactive>)$`)

// noLinkLine is what nvlink -s prints instead of links of a GPU of which none is active.
var noLinkLine = expression(`(?i)^\s*(?:NVML:\s+)?Unable to retrieve NVLink information as all links are inactive\.?$`)

// gpuOfLine makes a device of GPU N: PRODUCT (UUID).
func (d *draft) gpuOfLine(m []string, source node.Source) *device {
	x := d.same("gpu", gpuIndex+strings.TrimLeft(m[1][:len(m[1])-1], "0")+m[1][len(m[1])-1:], gpuUUID+m[3])
	if x.source == (node.Source{}) {
		x.source = source
	}
	if x.product == "" {
		x.product = m[2]
	}
	if x.gpu.UUID.IsZero() {
		x.gpu.UUID = node.Known(m[3], source)
	}
	return x
}

var smiListKind = kind{
	name: "nvidia-smi -L",
	scan: func(p piece) match {
		if !strings.HasPrefix(p.lines[0], "GPU ") || !gpuLine.MatchString(p.lines[0]) {
			return match{}
		}
		return match{while(p.lines, func(line string) bool { return gpuLine.MatchString(line) || migLine.MatchString(line) }), 2}
	},
	read: func(d *draft, s section) string {
		var x *device
		for i, line := range s.lines {
			if m := gpuLine.FindStringSubmatch(line); m != nil {
				x = d.gpuOfLine(m, s.source(i))
			} else if x != nil && migLine.MatchString(line) {
				x.gpu.MIG = node.Known(true, s.source(i))
			}
		}
		return ""
	},
}

var nvlinkKind = kind{
	name: "nvidia-smi nvlink -s",
	scan: func(p piece) match {
		if !strings.HasPrefix(p.lines[0], "GPU ") || len(p.lines) < 2 || !gpuLine.MatchString(p.lines[0]) || !linkLine.MatchString(p.lines[1]) && !noLinkLine.MatchString(p.lines[1]) {
			return match{}
		}
		return match{while(p.lines, func(line string) bool {
			return gpuLine.MatchString(line) || linkLine.MatchString(line) || noLinkLine.MatchString(line)
		}), 3}
	},
	read: func(d *draft, s section) string {
		var x *device
		var state node.NVLinkState
		doubt := ""
		done := func() {
			if x != nil && len(state.Links) > 0 {
				x.links = node.Known(state, x.links.Source())
			}
		}
		for i, line := range s.lines {
			source := s.source(i)
			if m := gpuLine.FindStringSubmatch(line); m != nil {
				done()
				x, state = d.gpuOfLine(m, source), node.NVLinkState{}
				x.links = node.Unknown[node.NVLinkState]("no link is listed", source)
				continue
			}
			if x != nil && noLinkLine.MatchString(line) {
				x.links = node.Known(node.NVLinkState{Links: []node.NVLinkPort{}}, source)
			}
			m := linkLine.FindStringSubmatch(line)
			if m == nil || x == nil {
				continue
			}
			l := node.NVLinkPort{Link: number(m[1]), State: node.Known(node.NVLinkInactive, source)}
			if m[2] != "" {
				l.State = node.Known(node.NVLinkActive, source)
				if speed, err := strconv.ParseFloat(m[2], 64); err == nil {
					l.SpeedMBps = node.Known(int(math.Round(speed*1000)), source)
				}
			}
			if slices.ContainsFunc(state.Links, func(o node.NVLinkPort) bool { return o.Link == l.Link }) { // GPUs number them from 0
				doubt = fmt.Sprintf("link %d of GPU %s is listed twice: something was put together", l.Link, x.name(gpuIndex))
				continue
			}
			state.Links = append(state.Links, l)
		}
		if x != nil && len(state.Links) > 0 && s.typed("|", "head") {
			x.links = node.Unknown[node.NVLinkState]("the text may be cut off behind its last link", x.links.Source())
			return orFirst(doubt, "head may have cut it off")
		}
		done()
		return doubt
	},
}

// number reads a few digits; 0 for another text.
func number(s string) int {
	if len(s) > 9 {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// The block that nvidia-smi -q prints for each GPU, and a part of it: NAME : VALUE below headings, by depth.
var (
	queryLine = expression(`^( *)(\S[^:]{0,60}?) +: ?(.*)$`)
	queryGPU  = expression(`^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])$`)
)

// queryHeadings are those below which busbar reads something, also where somebody pasted just them.
var queryHeadings = map[string][]string{
	"Fabric": {"State", "Status", "CliqueId", "ClusterUUID"}, "MIG Mode": {"Current", "Pending"}, "ECC Mode": {"Current", "Pending"},
	"BAR1 Memory Usage": {"Total", "Used", "Free"}, "GPU Link Info": nil,
}

var smiQueryKind = kind{
	name: "nvidia-smi -q",
	scan: func(p piece) match {
		first := strings.TrimSpace(p.lines[0])
		below, fragment := queryHeadings[first]
		whole := strings.Contains(first, "NVSMI LOG") || queryGPU.MatchString(first)
		if !whole && !fragment {
			return match{}
		}
		m := match{signs: 1 + one(p.typed("nvidia-smi"))}
		for i, line := range p.lines {
			trimmed := strings.TrimSpace(line)
			name, _, pair := strings.Cut(trimmed, ":")
			name = strings.TrimSpace(name)
			switch {
			case line == "" && i-m.lines < maxBlank:
				continue
			case i > 0 && pair && fragment && !whole && len(below) > 0 && contains(below, name):
				m.signs++
			case pair && queryLine.MatchString(line), i == 0, queryGPU.MatchString(trimmed):
			case line != "" && line[0] == ' ':
			default:
				return m.atLeast(whole && i > 2)
			}
			m.lines = i + 1
		}
		return m.atLeast(whole && m.lines > 2)
	},
	read: readQuery,
}

// atLeast gives a match one sign more.
func (m match) atLeast(more bool) match {
	m.signs += one(more)
	return m
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// readQuery takes what it says of the driver and of each GPU. The part without a GPU's name is of one that nobody named.
func readQuery(d *draft, s section) string {
	var x *device
	var path []string // headings above, by depth
	var depth []int
	index, attached := 0, 0
	fabric := node.GPUFabricState{}
	done := func() {
		if x != nil && fabric.State != "" && x.fabric.IsZero() {
			x.fabric = node.Known(fabric, x.source)
			if fabric.State == "n/a" {
				x.fabric = node.Unsupported[node.GPUFabricState]("N/A", x.source)
			}
		}
		fabric = node.GPUFabricState{}
	}
	for i, line := range s.lines {
		source := s.source(i)
		trimmed := strings.TrimSpace(line)
		if m := queryGPU.FindStringSubmatch(trimmed); m != nil {
			done()
			x = d.same("gpu", pciName+pciAddress(m[1]), gpuNamed(index))
			if index++; x.source == (node.Source{}) {
				x.source = source
			}
			path, depth = nil, nil
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		for len(depth) > 0 && depth[len(depth)-1] >= indent {
			path, depth = path[:len(path)-1], depth[:len(depth)-1]
		}
		m := queryLine.FindStringSubmatch(line)
		if m == nil {
			if trimmed != "" {
				path, depth = append(path, trimmed), append(depth, indent)
			}
			continue
		}
		name, value := strings.Join(append(path, m[2]), "/"), strings.TrimSpace(m[3])
		if name == "Attached GPUs" {
			attached = number(value)
			continue
		}
		if name == "Driver Version" {
			d.driverVersion(value, source)
			continue
		}
		if x == nil && len(path) > 0 {
			x = d.device("gpu", gpuIndex+"?")
			x.source = source
		}
		if x != nil {
			d.queried(x, name, value, &fabric, source)
		}
	}
	done()
	if index < attached && !s.typed("-i") {
		return fmt.Sprintf("%d GPUs are attached and %d shown: it is cut off", attached, index)
	}
	return ""
}

// driverVersion is a version of the driver that runs.
func (d *draft) driverVersion(version string, source node.Source) {
	if version != "" && version != "N/A" && d.driver.Version == "" {
		d.driver.Version, d.driver.Loaded, d.driverSource = version, true, source
	}
}

// queried takes one line of nvidia-smi -q.
func (d *draft) queried(x *device, name, value string, fabric *node.GPUFabricState, source node.Source) {
	g := &x.gpu
	bytes := func() node.Value[uint64] {
		n, unit, ok := strings.Cut(value, " ")
		mib, err := strconv.ParseUint(n, 10, 40)
		if !ok || unit != "MiB" || err != nil {
			return node.Value[uint64]{}
		}
		return node.Known(mib<<20, source)
	}
	small := func(text string) node.Value[int] {
		if digits(text) == 0 || digits(text) != len(text) {
			return node.Value[int]{}
		}
		return node.Known(number(text), source)
	}
	switch name {
	case "Product Name":
		x.product = orFirst(x.product, value)
	case "GPU UUID":
		if strings.HasPrefix(value, "GPU-") {
			d.same("gpu", x.any(), gpuUUID+value)
			set(&g.UUID, node.Known(value, source))
		}
	case "Minor Number":
		set(&g.Minor, small(value))
	case "MIG Mode/Current":
		set(&g.MIG, enabled(value, source))
	case "MIG Mode/Pending":
		set(&g.MIGPending, enabled(value, source))
	case "ECC Mode/Current":
		set(&g.ECC, enabled(value, source))
	case "ECC Mode/Pending":
		set(&g.ECCPending, enabled(value, source))
	case "Remapped Rows/Remapping Failure Occurred":
		set(&g.RepairFailed, yes(value, source))
	case "Remapped Rows/Pending", "Retired Pages/Pending Page Blacklist":
		g.RepairPending = pending(g.RepairPending, yes(value, source))
	case "GPU Recovery Action":
		if value != "N/A" {
			set(&g.Recovery, node.Known(value, source))
		}
	case "Persistence Mode":
		set(&g.Persistence, enabled(value, source))
	case "Compute Mode":
		set(&g.ComputeMode, node.Known(strings.ToLower(strings.ReplaceAll(value, "_", "-")), source))
	case "BAR1 Memory Usage/Total":
		set(&g.BAR1Bytes, bytes())
	case "BAR1 Memory Usage/Used":
		set(&g.BAR1UsedBytes, bytes())
	case "PCI/GPU Link Info/PCIe Generation/Max", "GPU Link Info/PCIe Generation/Max":
		set(&g.PCIeMaxGeneration, small(value))
	case "PCI/GPU Link Info/PCIe Generation/Current", "GPU Link Info/PCIe Generation/Current":
		set(&g.PCIeGeneration, small(value))
	case "PCI/GPU Link Info/Link Width/Max", "GPU Link Info/Link Width/Max":
		set(&g.PCIeMaxWidth, small(strings.TrimSuffix(value, "x")))
	case "PCI/GPU Link Info/Link Width/Current", "GPU Link Info/Link Width/Current":
		set(&g.PCIeWidth, small(strings.TrimSuffix(value, "x")))
	case "Utilization/GPU", "Utilization/Gpu":
		if percent, ok := strings.CutSuffix(value, " %"); ok && digits(percent) == len(percent) {
			set(&x.pciLink.Busy, node.Known(number(percent) > 0, source))
		}
	case "GPU Virtualization Mode/Virtualization Mode":
		if mode, ok := map[string]string{"None": node.GPUBareMetal, "Pass-Through": node.GPUPassthrough, "VGPU": node.GPUVGPU, "Host VGPU": node.GPUHostVGPU, "Host VSGA": node.GPUHostVSGA}[value]; ok {
			set(&g.Virtualization, node.Known(mode, source))
		}
	case "PCI/Device Id":
		if id := strings.ToLower(strings.TrimPrefix(value, "0x")); len(id) == 8 && strings.HasSuffix(id, "10de") {
			x.function.Vendor, x.function.Device = id[4:], id[:4]
			set(&g.PCIID, node.Known(x.function.ID(), source))
		}
	case "Fabric/State":
		fabric.State = strings.ReplaceAll(strings.ToLower(value), " ", "-")
	case "Fabric/Status":
		if value != "N/A" {
			fabric.Status = strings.ToLower(value)
		}
	case "Fabric/Health/Summary":
		if summary := strings.ReplaceAll(strings.ToLower(value), " ", "-"); summary != "n/a" {
			fabric.Summary = node.Known(summary, source)
		}
	case "Fabric/Health/Bandwidth":
		complain(fabric, node.FabricBandwidthDegraded, value == "Degraded", source)
	case "Fabric/Health/Route Recovery in progress":
		complain(fabric, node.FabricRouteRecovery, value == "True", source)
	case "Fabric/Health/Route Unhealthy":
		complain(fabric, node.FabricRouteUnhealthy, value == "True", source)
	case "Fabric/Health/Access Timeout Recovery":
		complain(fabric, node.FabricTimeoutRecovery, value == "True", source)
	case "Fabric/CliqueId":
		if n, err := strconv.ParseUint(value, 10, 32); err == nil {
			fabric.Clique = uint32(n)
		}
	case "Fabric/ClusterUUID":
		if value != "N/A" {
			fabric.ClusterUUID = value
		}
	}
}

// complain notes that a part of a GPU's fabric is not as it should be.
func complain(fabric *node.GPUFabricState, part node.FabricHealth, bad bool, source node.Source) {
	if bad {
		health, _ := fabric.Health.Get()
		fabric.Health = node.Known(health|part, source)
	}
}

// linkOf is a link of so many lanes of a generation, as nvidia-smi says both; zero where it does not say one of them.
func linkOf(generation, width node.Value[int]) node.Value[pciregs.Link] {
	g, ok := generation.Get()
	w, told := width.Get()
	if !ok || !told || g < 1 || g >= len(generations) {
		return node.Value[pciregs.Link]{}
	}
	l := pciregs.Link{SpeedGTs: generations[g], Width: w}
	if err := l.Check(); err != nil {
		return node.Unknown[pciregs.Link](err.Error(), width.Source())
	}
	return node.Known(l, width.Source())
}

// generations are the rates of a lane in GT/s (PCI Express Base Specification, 4.2).
var generations = [...]float64{1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}

// set gives a fact that nobody told before.
func set[T any](into *node.Value[T], v node.Value[T]) {
	if into.IsZero() {
		*into = v
	}
}

func orFirst(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// enabled reads Enabled and Disabled; N/A is unsupported.
func enabled(value string, source node.Source) node.Value[bool] {
	switch strings.ToLower(value) {
	case "enabled", "on":
		return node.Known(true, source)
	case "disabled", "off":
		return node.Known(false, source)
	case "n/a", "[n/a]", "[not supported]":
		return node.Unsupported[bool](value, source)
	default:
		return node.Value[bool]{}
	}
}

// yes reads Yes and No, 1 and 0 of columns; N/A is unsupported.
func yes(value string, source node.Source) node.Value[bool] {
	switch strings.ToLower(value) {
	case "yes", "1":
		return node.Known(true, source)
	case "no", "0":
		return node.Known(false, source)
	case "n/a", "not supported":
		return node.Unsupported[bool](value, source)
	default:
		return node.Value[bool]{}
	}
}

// pending joins what is said of rows and of pages: a GPU has one of the two, and the other is N/A.
func pending(before, v node.Value[bool]) node.Value[bool] {
	if is, _ := before.Get(); is || v.IsZero() || before.IsKnown() && !v.IsKnown() {
		return before
	}
	return v
}

// The table of nvidia-smi: three rows in a box for each GPU.
var (
	tableVersion = expression(`^\| NVIDIA-SMI \S+ +Driver Version: (\S+) `)
	tableGPU     = expression(`^\| +(\d{1,3}) +(\S.*?) +(On|Off|N/A) +\| +([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]) `)
	tableMIG     = expression(`^\|[ ]+\|[ ]+\| +(Enabled\*?|Disabled\*?|N/A) \|$`)
)

var smiTableKind = kind{
	name: "nvidia-smi",
	scan: func(p piece) match {
		first := p.lines[0]
		start := 0
		if _, err := strconv.Atoi(first[max(0, len(first)-4):]); err == nil && len(first) > 20 && len(first) < 32 && len(p.lines) > 1 { // the date
			start = 1
		}
		if !strings.HasPrefix(p.lines[start], "+--") && !strings.HasPrefix(p.lines[start], "|") {
			return match{}
		}
		m := match{}
		for i, line := range p.lines {
			switch {
			case i < start || line == "":
				continue
			case !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "+"):
				return m
			}
			m.lines = i + 1
			m.signs += one(tableVersion.MatchString(line)) + one(tableGPU.MatchString(line))
		}
		return m
	},
	read: func(d *draft, s section) string {
		var x *device
		for i, line := range s.lines {
			source := s.source(i)
			if m := tableVersion.FindStringSubmatch(line); m != nil {
				d.driverVersion(m[1], source)
			}
			if m := tableGPU.FindStringSubmatch(line); m != nil {
				x = d.same("gpu", gpuIndex+m[1], pciName+pciAddress(m[4]))
				if x.source == (node.Source{}) {
					x.source = source
				}
				if !strings.HasSuffix(m[2], "...") { // cut off
					x.product = orFirst(x.product, m[2])
				}
				set(&x.gpu.Persistence, enabled(m[3], source))
			}
			if x != nil && strings.Count(line, "ERR!") > 1 { // one alone may be a fan's
				x.fault("nvidia-smi gets errors for what it asks of it", source)
			}
			if m := tableMIG.FindStringSubmatch(line); m != nil && x != nil {
				now := strings.TrimSuffix(m[1], "*")
				set(&x.gpu.MIG, enabled(now, source))
				pending := enabled(now, source)
				if on, ok := pending.Get(); ok && now != m[1] { // the star: pending is another one
					pending = node.Known(!on, source)
				}
				set(&x.gpu.MIGPending, pending)
			}
		}
		return ""
	},
}

// csvFields are columns of nvidia-smi --query-gpu that busbar reads.
var csvFields = map[string]bool{
	"index": true, "name": true, "gpu_name": true, "pci.bus_id": true, "gpu_bus_id": true, "uuid": true, "gpu_uuid": true, "mig.mode.current": true, "mig.mode.pending": true,
	"fabric.state": true, "fabric.status": true, "driver_version": true, "persistence_mode": true, "ecc.mode.current": true, "ecc.mode.pending": true,
	"pcie.link.gen.current": true, "pcie.link.gen.max": true, "pcie.link.width.current": true, "pcie.link.width.max": true, "compute_mode": true, "utilization.gpu": true,
	"remapped_rows.failure": true, "remapped_rows.pending": true, "retired_pages.pending": true,
}

// csvHeading are the columns that a heading names; nil for another line. nvidia-smi writes units behind names: memory.total [MiB].
func csvHeading(line string) []string {
	if !strings.Contains(line, ",") && !csvFields[strings.TrimSpace(line)] {
		return nil
	}
	var columns []string
	known := 0
	for _, c := range strings.Split(line, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(c), " ")
		columns = append(columns, name)
		known += one(csvFields[name])
	}
	if known < 2 && !(len(columns) == 1 && known == 1) {
		return nil
	}
	return columns
}

// queried are the columns that a command asks for.
func queriedColumns(command string) []string {
	for _, w := range strings.Fields(command) {
		if list, ok := strings.CutPrefix(w, "--query-gpu="); ok {
			return strings.Split(list, ",")
		}
	}
	return nil
}

// guessed are the columns of a row without a heading, where their form tells: a number, the product, an address, a UUID. What says
// Enabled or Disabled behind number, product and address is taken for mig.mode.current, what people query with those; N/A alone
// behind a number for fabric.state and fabric.status.
func guessed(row string) (columns []string, signs int) {
	cells := strings.Split(row, ",")
	if len(cells) < 3 || len(cells) > 12 {
		return nil, 0
	}
	na := 0
	for i, c := range cells {
		c = strings.TrimSpace(c)
		switch {
		case i == 0 && digits(c) == len(c) && c != "" && len(c) < 4:
			columns = append(columns, "index")
			signs++
		case strings.HasPrefix(c, "GPU-") && len(c) == 40:
			columns = append(columns, "uuid")
			signs++
		case pciAddress(c) != "":
			columns = append(columns, "pci.bus_id")
			signs++
		case strings.HasPrefix(c, "NVIDIA ") || strings.HasPrefix(c, "Tesla "):
			columns = append(columns, "name")
			signs++
		case c == "Enabled" || c == "Disabled":
			columns = append(columns, "mig.mode.current")
		case c == "N/A" || c == "[N/A]":
			na++
			columns = append(columns, []string{"", "fabric.state", "fabric.status"}[min(na, 2)])
		case fabricStates[c]:
			columns = append(columns, "fabric.state")
			signs++
		default:
			columns = append(columns, "")
		}
	}
	if na == 2 && len(cells) == 3 {
		signs++
	}
	return columns, signs
}

var fabricStates = map[string]bool{"Completed": true, "In Progress": true, "Not Started": true, "Not Supported": true}

var smiCSVKind = kind{
	name: "nvidia-smi --query-gpu, CSV",
	scan: func(p piece) match {
		columns, start, signs := csvHeading(p.lines[0]), 1, 2
		if columns == nil {
			columns, start, signs = queriedColumns(p.command), 0, 1
			if columns != nil && strings.Count(p.lines[0], ",") == len(columns)-1 {
				signs++
			}
		}
		if columns == nil {
			columns, signs = guessed(p.lines[0])
		}
		if columns == nil {
			return match{}
		}
		rows := while(p.lines[start:], func(line string) bool { return strings.Count(line, ",") == len(columns)-1 })
		if rows == 0 {
			return match{}
		}
		return match{start + rows, signs}
	},
	read: func(d *draft, s section) string {
		columns, start := csvHeading(s.lines[0]), 1
		if columns == nil {
			if columns, start = queriedColumns(s.command), 0; columns == nil {
				columns, _ = guessed(s.lines[0])
			}
		}
		version := slices.Index(columns, "driver_version")
		first, doubt := "", ""
		for i, line := range s.lines[start:] {
			if line == "" {
				continue
			}
			cells := strings.Split(line, ",")
			d.csvRow(columns, cells, i, s.source(start+i))
			if version >= 0 && version < len(cells) {
				v := strings.TrimSpace(cells[version])
				if first = orFirst(first, v); v != first {
					doubt = fmt.Sprintf("its rows have drivers %s and %s, and a node runs one: something was put together", first, v)
				}
			}
		}
		return doubt
	},
}

// csvRow takes what a row says of its GPU.
func (d *draft) csvRow(columns, cells []string, row int, source node.Source) {
	value := map[string]string{}
	for i, c := range columns {
		if i < len(cells) {
			value[c] = strings.TrimSpace(cells[i])
		}
	}
	name := gpuNamed(row)
	if v := value["index"]; v != "" && digits(v) == len(v) {
		name = gpuIndex + v
	}
	x := d.device("gpu", name)
	if a := pciAddress(orFirst(value["pci.bus_id"], value["gpu_bus_id"])); a != "" {
		x = d.same("gpu", name, pciName+a)
	}
	if u := orFirst(value["uuid"], value["gpu_uuid"]); strings.HasPrefix(u, "GPU-") {
		x = d.same("gpu", name, gpuUUID+u)
	}
	if x.source == (node.Source{}) {
		x.source = source
	}
	x.product = orFirst(x.product, orFirst(value["name"], value["gpu_name"]))
	d.driverVersion(value["driver_version"], source)
	fabric := node.GPUFabricState{}
	for column, line := range map[string]string{
		"mig.mode.current": "MIG Mode/Current", "mig.mode.pending": "MIG Mode/Pending", "persistence_mode": "Persistence Mode", "ecc.mode.current": "ECC Mode/Current",
		"ecc.mode.pending": "ECC Mode/Pending", "fabric.state": "Fabric/State", "fabric.status": "Fabric/Status", "compute_mode": "Compute Mode",
		"pcie.link.gen.current": "GPU Link Info/PCIe Generation/Current", "pcie.link.gen.max": "GPU Link Info/PCIe Generation/Max",
		"pcie.link.width.current": "GPU Link Info/Link Width/Current", "pcie.link.width.max": "GPU Link Info/Link Width/Max",
		"utilization.gpu": "Utilization/GPU", "remapped_rows.failure": "Remapped Rows/Remapping Failure Occurred",
	} {
		if v := strings.Trim(value[column], "[]"); v != "" {
			d.queried(x, line, v, &fabric, source)
		}
	}
	for _, column := range []string{"remapped_rows.pending", "retired_pages.pending"} {
		x.gpu.RepairPending = pending(x.gpu.RepairPending, yes(strings.Trim(value[column], "[]"), source))
	}
	switch {
	case fabric.State == "n/a":
		set(&x.fabric, node.Unsupported[node.GPUFabricState]("N/A", source))
	case fabric.State != "":
		set(&x.fabric, node.Known(fabric, source))
	}
}
