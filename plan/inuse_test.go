package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"busbar/node"
	"busbar/plan"
)

func TestInUse(t *testing.T) {
	const gpu, rail, other = "0000:1b:00.0", "0000:1a:00.0", "0000:5e:00.0"
	inventory := func(driver string) node.Inventory {
		return node.Inventory{
			Virtualization: node.Known("none", node.Source{}),
			Protected:      node.Known([]node.ProtectedNetdev{}, node.Source{}),
			Netdevs:        node.Known([]node.Netdev{{Name: "rail0", Type: node.ARPHardwareEthernet, PCI: rail, Port: 1}, {Name: "eth0", Type: node.ARPHardwareEthernet, PCI: other, Port: 1}}, node.Source{}),
			PCI: node.Known([]node.PCIFunction{
				{Address: "0000:17:00.0", Vendor: "8086", Class: "060400"},
				{Address: "0000:18:00.0", Vendor: "1000", Class: "060400", Parent: "0000:17:00.0"},
				{Address: "0000:19:00.0", Vendor: "1000", Class: "060400", Parent: "0000:18:00.0"},
				{Address: "0000:19:01.0", Vendor: "1000", Class: "060400", Parent: "0000:18:00.0"},
				{Address: rail, Vendor: "15b3", Device: "1021", Class: "020000", Parent: "0000:19:00.0", Driver: "mlx5_core"},
				{Address: gpu, Vendor: "10de", Device: "2330", Class: "030200", Parent: "0000:19:01.0", Driver: driver},
				{Address: "0000:5d:00.0", Vendor: "8086", Class: "060400"},
				{Address: other, Vendor: "15b3", Device: "1021", Class: "020000", Parent: "0000:5d:00.0", Driver: "mlx5_core"},
			}, node.Source{}),
		}
	}
	bare := inventory("nvidia")
	if rails, ok := bare.Rails().Get(); !ok || len(rails) != 1 {
		t.Fatalf("%v, %s", rails, bare.Rails().Reason())
	}
	guest, root, without := bare, bare, bare
	guest.Virtualization = node.Known("kvm", node.Source{})
	root.RootDirectory = true
	without.PCI = node.Known([]node.PCIFunction{}, node.Source{})
	none := node.Known(0, node.Source{})
	job := node.GPUUsage{Users: []node.GPUUser{{PID: 7, Name: "python3", GPUs: []string{gpu}}}, Unseen: none}
	python := []string{"python3 (process 7) uses 0000:1b:00.0"}
	usage := func(inv node.Inventory, u node.GPUUsage) node.Facts {
		return node.Facts{Inventory: inv}.With(node.GPUUsers.Answer("", node.Known(u, node.Source{Path: "/proc"})),
			node.RDMAUsers.Answer("", node.Known(node.RDMAUsage{}, node.Source{})), node.SlurmJobs.Answer("", node.Known([]string{}, node.Source{})))
	}
	idle := node.GPUUsage{Unseen: none}
	// connected has queue pairs of a process and of a disk on the rail, and of a container on the other NIC, and Slurm's jobs.
	connected := func(inv node.Inventory, jobs ...string) node.Facts {
		return usage(inv, idle).With(node.SlurmJobs.Answer("", node.Known(jobs, node.Source{})), node.RDMAUsers.Answer("", node.Known(node.RDMAUsage{
			Users:  []node.RDMAUser{{Name: "nvme_rdma", Devices: []string{"mlx5_0"}}, {PID: 7, Name: "python3", Devices: []string{"mlx5_0"}}},
			Unseen: []string{"mlx5_1"},
		}, node.Source{})))
	}
	onRail := []string{"nvme_rdma (kernel) uses mlx5_0", "python3 (process 7) uses mlx5_0"}
	everywhere := append(slices.Clone(onRail), "processes that do not show here, as of containers, use mlx5_1")
	cabled := bare
	cabled.RDMA = node.Known([]node.RDMADevice{
		{Name: "mlx5_0", PCI: rail, Ports: []node.RDMADevicePort{{Port: 1, Netdev: "rail0", LinkLayer: node.Known("Ethernet", node.Source{})}}},
		{Name: "mlx5_1", PCI: other, Ports: []node.RDMADevicePort{{Port: 1, Netdev: "eth0", LinkLayer: node.Known("Ethernet", node.Source{})}}},
	}, node.Source{})
	noRDMA, noGPU := cabled, cabled
	noRDMA.RDMA = node.Known([]node.RDMADevice{}, node.Source{})
	noGPU.PCI = node.Known([]node.PCIFunction{{Address: rail, Vendor: "15b3", Device: "1021", Class: "020000", Driver: "mlx5_core"}}, node.Source{})
	bounce := func(nic string) plan.Step { return plan.Step{Target: nic, Effect: plan.LinkBounce} }
	unload := plan.Step{Action: plan.LoadModule{Name: "nvidia_peermem", Unload: true}, Effect: plan.Live}
	for _, c := range []struct {
		name    string
		step    plan.Step
		facts   node.Facts
		booting bool
		want    []string
	}{
		{"a driver is loaded again", plan.Step{Effect: plan.DriverReload}, usage(bare, job), false, python},
		{"GPUs are reset", plan.Step{Effect: plan.GPUReset}, usage(bare, job), true, python},
		{"nobody uses them", plan.Step{Effect: plan.GPUReset}, usage(bare, node.GPUUsage{Unseen: none}), false, nil},
		{"a module of the driver goes", unload, usage(bare, job), false, python},
		{"a module of the driver is loaded", plan.Step{Action: plan.LoadModule{Name: "nvidia_peermem"}, Effect: plan.Live}, usage(bare, job), false, nil},
		{"another module goes", plan.Step{Action: plan.LoadModule{Name: "irdma", Unload: true}, Effect: plan.Live}, usage(bare, job), false, nil},
		{"the fabric manager is restarted", plan.Step{Action: plan.RestartUnit{Unit: "nvidia-fabricmanager.service"}, Effect: plan.ServiceRestart}, usage(bare, job), false, python},
		{"the fabric manager is stopped", plan.Step{Action: plan.SetUnit{Unit: "nvidia-fabricmanager.service", Active: "inactive"}, Effect: plan.ServiceRestart}, usage(bare, job), false, python},
		{"the fabric manager is started", plan.Step{Action: plan.SetUnit{Unit: "nvidia-fabricmanager.service", Active: "active"}, Effect: plan.ServiceRestart}, usage(bare, job), false, nil},
		{"another service is restarted", plan.Step{Action: plan.RestartUnit{Unit: "slurmd.service"}, Effect: plan.ServiceRestart}, usage(bare, job), false, nil},
		{"files for the next boot", plan.Step{Action: plan.WriteFile{Path: "/etc/default/grub.d/zz-busbar.cfg"}, Effect: plan.Reboot}, usage(bare, job), false, nil},
		{"a rail's link", bounce(rail), usage(bare, job), false, python},
		{"the link of a NIC away from GPUs", bounce(other), usage(bare, job), false, nil},
		{"a link where nobody knows the rails", bounce(other), usage(guest, job), false, python},
		{"a setting of a rail that leaves the link up", plan.Step{Target: rail, Effect: plan.Live}, usage(bare, job), false, nil},
		{"handed to VFIO", bounce(rail), usage(inventory("vfio-pci"), node.GPUUsage{Unseen: none}), false, []string{"vfio-pci is bound to 0000:1b:00.0"}},
		{"handed to VFIO, at boot", bounce(rail), usage(inventory("vfio-pci"), node.GPUUsage{Unseen: none}), true, nil},
		{"nobody asked", bounce(rail), node.Facts{Inventory: bare}, false, []string{"who uses the GPUs is unknown: not recorded", "who uses RDMA is unknown: not recorded", "whether Slurm runs a job is unknown: not recorded"}},
		{"nobody asked, at boot", bounce(rail), node.Facts{Inventory: bare}, true, nil},
		{"it cannot be seen", bounce(rail), usage(bare, node.GPUUsage{Hidden: 4}), false, []string{"whether the GPUs are in use is unknown: not all processes can be looked into (4 cannot); root can"}},
		{"connections over a rail", bounce(rail), connected(cabled), false, onRail},
		{"connections over a rail, at boot", bounce(rail), connected(cabled), true, onRail},
		{"connections over the other NIC", bounce(other), connected(cabled), false, everywhere[2:]},
		{"connections over nobody knows which", bounce(other), connected(bare), false, everywhere},
		{"a job of Slurm", bounce(other), connected(cabled, "3385", "3386"), false, append(slices.Clone(everywhere[2:]), "Slurm runs job 3385", "Slurm runs job 3386")},
		{"a job of Slurm, and GPUs are reset", plan.Step{Effect: plan.GPUReset}, connected(cabled, "3385"), false, []string{"Slurm runs job 3385"}},
		{"a job of Slurm, and nothing is disturbed", plan.Step{Effect: plan.Live}, connected(cabled, "3385"), false, nil},
		{"the RDMA stack goes", plan.Step{Action: plan.LoadModule{Name: "mlx5_ib", Unload: true}}, connected(cabled), false, everywhere},
		{"the RDMA stack is restarted", plan.Step{Action: plan.RestartUnit{Unit: "openibd.service"}}, connected(cabled), false, everywhere},
		{"the RDMA stack is stopped", plan.Step{Action: plan.SetUnit{Unit: "openibd.service", Active: "inactive"}}, connected(cabled), false, everywhere},
		{"the RDMA stack is started", plan.Step{Action: plan.SetUnit{Unit: "openibd.service", Active: "active"}}, connected(cabled), false, nil},
		{"no RDMA", bounce(rail), connected(noRDMA), false, nil},
		{"no GPU, and connections", bounce(rail), connected(noGPU), false, onRail},
		{"no GPU", plan.Step{Effect: plan.DriverReload}, usage(without, job), false, nil},
		{"a root directory", plan.Step{Effect: plan.DriverReload}, usage(root, job), false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.step.InUse(c.facts.Restrict(c.step.InUseQueries(c.facts.Inventory)), c.booting), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
