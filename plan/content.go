package plan

import "busbar/node"

// Content is what facts show of the file; a file that is absent is a known state.
// An error says why it is not known.
func (a WriteFile) Content(f node.Facts) (node.FileState, error) { return fileState(f, a.Path, a.List) }

// Content is what facts show of the file, as WriteFile's.
func (a RemoveFile) Content(f node.Facts) (node.FileState, error) {
	return fileState(f, a.Path, a.List)
}
