package node

import "busbar/internal/kernlog"

// KernelLogState is what the kernel's log tells of faults since boot.
type KernelLogState struct {
	// Events are the faults and what else matters to the paths of GPUs, in the order in which they began.
	Events []kernlog.Event `json:"events,omitempty"`
	// Records is how many records were read.
	Records int `json:"records" range:"0:"`
	// Lost is how many older records the log does not hold any more; unknown where it does not say.
	Lost Value[int] `json:"lost,omitzero" range:"0:"`
	// Dropped is how many further events were left out.
	Dropped int `json:"dropped,omitempty" range:"0:"`
}

// NewKernelLogState picks the events of a log.
func NewKernelLogState(log kernlog.Log, source Source) KernelLogState {
	var c kernlog.Collector
	for _, r := range log.Records {
		c.Add(r)
	}
	s := CollectedKernelLog(&c, source)
	if log.Lost != nil {
		s.Lost = Known(int(min(*log.Lost, 1<<53)), source)
	}
	return s
}

// CollectedKernelLog is what was picked of a log that was read line by line.
func CollectedKernelLog(c *kernlog.Collector, source Source) KernelLogState {
	s := KernelLogState{Records: c.Records(), Lost: Unknown[int]("the text does not say what came before it", source)}
	s.Events, s.Dropped = c.Events()
	return s
}
