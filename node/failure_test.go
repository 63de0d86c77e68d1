package node

import (
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestTheFirstFailureCounts(t *testing.T) {
	f := newFailure(hclog.NewNullLogger())
	if f.failed() || f.cause() != nil {
		t.Fatalf("failed without an error: %v", f.cause())
	}
	first := errors.New("first")
	f.fail(first)
	f.fail(errors.New("second"))
	<-f.happened
	if got := f.cause(); !f.failed() || !errors.Is(got, first) {
		t.Errorf("got %v, want %v", got, first)
	}
}
