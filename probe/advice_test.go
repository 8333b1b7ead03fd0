package probe

import (
	"strings"
	"testing"
)

// What is advised is for errors that CUDA has.
func TestAdvice(t *testing.T) {
	for code, advice := range advices {
		err := (&cudaError{call: "cuInit", code: code, name: "CUDA_ERROR", text: "text"}).Error()
		if !strings.HasSuffix(err, ": "+advice) || strings.HasSuffix(advice, ".") {
			t.Error(err)
		}
	}
	if err := (&cudaError{call: "cuInit", code: 1, name: "CUDA_ERROR_INVALID_VALUE", text: "invalid argument"}).Error(); err != "cuInit failed with CUDA_ERROR_INVALID_VALUE (1), invalid argument" {
		t.Error(err)
	}
}
