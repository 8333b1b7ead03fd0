package paste

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"busbar/internal/nccltests"
)

// What nccl-tests printed reads as it does by itself, also with NCCL's log between.
func TestNCCLTests(t *testing.T) {
	files, err := filepath.Glob("../../internal/nccltests/testdata/*.txt")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := nccltests.Parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var p Paste
		for name, text := range map[string]string{"plain": string(text), "quoted": prefixed(string(text), "> ")} {
			p = Paste{}
			if err := p.Add(name, "", strings.NewReader("It is slow:\n```\n"+text+"```\n")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Collectives{{name, want}}, p.Collectives()); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s%v", file, name, diff, kindsOf(p.Inputs()))
			}
		}
	}
}
