package timeout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A deadline excuses the errors that it caused, and no error beside it.
func TestJoin(t *testing.T) {
	wrong := errors.New("two holders")
	wrapped := fmt.Errorf("%w: %w", errors.New("no answer"), context.DeadlineExceeded)
	for name, tt := range map[string]struct {
		errs []error
		late bool
	}{
		"deadlines":                  {[]error{nil, context.DeadlineExceeded, wrapped, os.ErrDeadlineExceeded}, true},
		"a deadline and a failure":   {[]error{wrapped, wrong}, false},
		"a failure":                  {[]error{nil, wrong}, false},
		"a failure within a failure": {[]error{Join(wrapped, wrong), context.DeadlineExceeded}, false},
	} {
		err := fmt.Errorf("all: %w", Join(tt.errs...))
		if got := late(err); got != tt.late || errors.Is(err, wrong) == tt.late {
			t.Errorf("%s: caused by a deadline: %v, want %v", name, got, tt.late)
		}
		for _, one := range tt.errs {
			if one != nil && !strings.Contains(err.Error(), one.Error()) {
				t.Errorf("%s: %v does not tell %v", name, err, one)
			}
		}
	}
	if err := Join(nil, nil); err != nil {
		t.Errorf("no errors: %v", err)
	}
}
