package node

import "busbar/internal/nccllog"

// NCCLLogState is what the logs of a job say. That there are none is a known state.
type NCCLLogState struct {
	// Files that were read, by name: one, or one of each process. Those of several processes are read as one log, and the numbers of lines
	// count through.
	Files []string `json:"files"`
	// Starts are the numbers that the first lines of Files have then; nil where nobody noted them, and of one file.
	Starts []int `json:"starts,omitempty"`
	// LeftOut is how many older files of that name were not read.
	LeftOut int `json:"left_out,omitempty" range:"0:"`
	// Log is what they say together.
	Log nccllog.Log `json:"log,omitzero"`
}
