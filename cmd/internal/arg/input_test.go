package arg

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"holdfast/test/bubble"
)

// A Read that waits ends with the context, and so do those after it. The reader that it left has no way into the
// caller's bytes.
func TestReadsEndWithTheContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		from, to := io.Pipe()
		r := Until(ctx, from)
		go func() { _, _ = to.Write([]byte("ab")) }()
		b := make([]byte, 8)
		if n, err := r.Read(b); string(b[:n]) != "ab" || err != nil {
			t.Errorf("got %q, %v", b[:n], err)
		}
		told := errors.New("told to end")
		ended := make(chan error)
		go func() {
			_, err := r.Read(b)
			ended <- err
		}()
		synctest.Wait() // the Read waits
		cancel(told)
		if err := <-ended; !errors.Is(err, told) {
			t.Errorf("got %v, want the cause", err)
		}
		if _, err := to.Write([]byte("zz")); err != nil { // for the Read that was left
			t.Fatal(err)
		}
		synctest.Wait()
		if string(b[:2]) != "ab" {
			t.Errorf("the caller's bytes are %q after the Read has ended", b[:2])
		}
		if _, err := r.Read(b); !errors.Is(err, told) {
			t.Errorf("after the end: got %v, want the cause", err)
		}
	})
}

func TestAnswers(t *testing.T) {
	for given, want := range map[string]string{
		"yes\n": "yes", " yes \r\nno\n": "yes", "yes": "yes", "\n": "", strings.Repeat("y", 2000): strings.Repeat("y", 1024),
	} {
		if got, err := Answer(t.Context(), strings.NewReader(given)); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", given, got, err, want)
		}
	}
	if _, err := Answer(t.Context(), strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Errorf("no answer: got %v, want EOF", err)
	}
	broken := errors.New("broken")
	if _, err := Answer(t.Context(), io.MultiReader(strings.NewReader("ye"), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
