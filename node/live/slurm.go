package live

import (
	"slices"
	"strconv"
	"strings"

	"busbar/internal/lazyregexp"
	"busbar/node"
)

// stepDaemon is the title that slurmstepd gives itself, one for each step of a job (slurm.schedmd.com/cgroup_v2.html):
// "slurmstepd: [3385.0]", "slurmstepd: [3385.extern]". One called "slurmstepd infinity" keeps the cgroup and has no job.
var stepDaemon = lazyregexp.New(`^slurmstepd: \[(\d+)[].+_]`)

// slurmJobs looks for the daemons that Slurm starts for each step of a job on this node.
func (s *session) slurmJobs(string) node.Value[[]string] {
	const processes = "/proc"
	names, err := s.names(processes)
	if err != nil {
		return unknown[[]string](err, processes)
	}
	jobs := []string{}
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		comm, err := s.readBytes(processes+"/"+name+"/comm", maxAttribute)
		if err != nil || strings.TrimSuffix(string(comm), "\n") != "slurmstepd" {
			continue // it has ended, or is another program
		}
		title, err := s.readBytes(processes+"/"+name+"/cmdline", maxFile)
		if err != nil {
			continue // it has ended
		}
		if m := stepDaemon.FindSubmatch(title); m != nil {
			jobs = append(jobs, string(m[1]))
		}
	}
	slices.Sort(jobs)
	return node.Known(slices.Compact(jobs), node.Source{Path: processes})
}
