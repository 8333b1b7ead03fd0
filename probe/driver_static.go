//go:build static

package probe

import "errors"

// openDriver fails: a static program (CGO_ENABLED=0 go build -tags static), which runs where there
// is no C library, cannot load another's library.
func openDriver() (cuda, error) {
	return nil, errors.New("this busbar is a static program, which cannot load " + library + ": use one that was built without the tag static")
}
