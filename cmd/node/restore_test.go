package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A signal ends the wait for the former cluster's id.
func TestAnInterruptEndsTheQuestion(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	told := errors.New("interrupt signal received")
	from, to := io.Pipe()
	t.Cleanup(func() { to.Close() })
	ended := make(chan error, 1)
	go func() { ended <- confirmed(ctx, from, "orders") }()
	if _, err := to.Write([]byte("ord")); err != nil { // it reads
		t.Fatal(err)
	}
	cancel(told)
	if err := <-ended; !errors.Is(err, told) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("got %v, want the cause", err)
	}
	for given, good := range map[string]bool{"orders\n": true, "orders": true, "yes\n": false, "": false} {
		if err := confirmed(t.Context(), strings.NewReader(given), "orders"); (err == nil) != good {
			t.Errorf("%q: got %v", given, err)
		}
	}
}

// A command that makes directories continues after a signal to end, and prints that.
func TestMakingDirectoriesGoesOn(t *testing.T) {
	var said bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&said)
	ctx, cancel := context.WithCancel(t.Context())
	cmd.SetContext(ctx)
	goesOn(cmd)()
	end := goesOn(cmd)
	cancel()
	end()
	if !strings.Contains(said.String(), "a second signal ends it at once") || strings.Count(said.String(), "\n") != 1 {
		t.Errorf("got %q, want one line", said.String())
	}
}
