package live

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"busbar/node"
)

// Inventory reads round 0. It returns when ctx ends at the latest; what was not read by then is
// unknown.
func (r *Reader) Inventory(ctx context.Context) node.Inventory {
	inv := unreadInventory("not read in time")
	inv.RootDirectory = !r.files.running
	// Each part fills fields of its own once they are read.
	parts := make(chan func(*node.Inventory), 8)
	var wg sync.WaitGroup
	for _, read := range []func(context.Context, chan<- func(*node.Inventory)){r.readIdentity, r.readPCI, r.readNetwork} {
		wg.Go(func() { read(ctx, parts) })
	}
	go func() {
		wg.Wait()
		close(parts)
	}()
	for {
		select {
		case fill, more := <-parts:
			if !more {
				return inv
			}
			fill(&inv)
		case <-ctx.Done():
			for len(parts) > 0 {
				(<-parts)(&inv)
			}
			return inv
		}
	}
}

// unreadInventory has the same reason everywhere.
func unreadInventory(why string) node.Inventory {
	return node.Inventory{
		Arch:           node.Unknown[string](why, node.Source{}),
		Kernel:         node.Unknown[string](why, node.Source{}),
		OS:             node.Unknown[node.OS](why, node.Source{}),
		DMI:            node.Unknown[node.DMI](why, node.Source{}),
		Virtualization: node.Unknown[string](why, node.Source{}),
		PCI:            node.Unknown[[]node.PCIFunction](why, node.Source{}),
		Netdevs:        node.Unknown[[]node.Netdev](why, node.Source{}),
		RDMA:           node.Unknown[[]node.RDMADevice](why, node.Source{}),
		Routes:         node.Unknown[[]node.Route](why, node.Source{}),
		Protected:      node.Unknown[[]node.ProtectedNetdev](why, node.Source{}),
		SavedProtected: node.Unknown[[]string](why, node.Source{}),
		BootID:         node.Unknown[string](why, node.Source{}),
		Uptime:         node.Unknown[time.Duration](why, node.Source{}),
		Marker:         node.Unknown[node.Marker](why, node.Source{}),
	}
}

func (r *Reader) readIdentity(_ context.Context, parts chan<- func(*node.Inventory)) {
	f := r.files
	hostname, os, arch := f.hostname(), f.osRelease(), r.arch()
	kernel := f.attributeValue("/proc/sys/kernel/osrelease")
	bootID := f.attributeValue("/proc/sys/kernel/random/boot_id")
	uptime, marker, dmi := f.uptime(), f.marker(), f.dmi()
	virtualization := f.virtualization(dmi)
	parts <- func(inv *node.Inventory) {
		inv.Hostname, inv.OS, inv.Arch, inv.Kernel = hostname, os, arch, kernel
		inv.BootID, inv.Uptime, inv.Marker = bootID, uptime, marker
		inv.DMI, inv.Virtualization = dmi, virtualization
	}
}

func (r *Reader) readPCI(_ context.Context, parts chan<- func(*node.Inventory)) {
	pci := r.files.pci()
	parts <- func(inv *node.Inventory) { inv.PCI = pci }
}

func (r *Reader) readNetwork(ctx context.Context, parts chan<- func(*node.Inventory)) {
	b, saved := r.netboot(), r.files.savedProtected()
	netdevs := r.files.netdevs()
	list, ok := netdevs.Get()
	if ok {
		r.dropRepresentors(ctx, list)
	}
	adapters := r.files.hasEntries(rdmaClass)
	var wg sync.WaitGroup
	var net node.Value[network]
	var rdma node.Value[[]node.RDMADevice]
	wg.Go(func() { rdma = r.rdma(ctx, list) })
	wg.Go(func() { net = r.network(ctx, b.addresses(), adapters) })
	wg.Wait()
	n, _ := net.Get()
	for i, d := range list {
		list[i].Addresses = slices.Sorted(slices.Values(n.Addresses[d.Name]))
	}
	devices, _ := rdma.Get()
	protected := r.protect(b, net, saved, list, devices)
	if !ok {
		protected = node.Unknown[[]node.ProtectedNetdev](netdevs.Reason(), netdevs.Source())
	}
	parts <- func(inv *node.Inventory) {
		inv.Netdevs, inv.RDMA, inv.Routes, inv.Protected, inv.SavedProtected = netdevs, rdma, routes(net), protected, saved
	}
}

// addresses are those of the hosts to reach, each once.
func (b netboot) addresses() []netip.Addr {
	set := map[netip.Addr]bool{}
	for _, p := range b.peers {
		set[p.address] = true
	}
	return slices.SortedFunc(maps.Keys(set), netip.Addr.Compare)
}

// hasEntries reports whether a directory has entries.
func (f files) hasEntries(dir string) bool {
	names, err := f.names(dir)
	return err == nil && len(names) > 0
}
