package arg

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
)

// Until returns a reader of r for as long as ctx lives. Once ctx has ended, a Read returns the cause of ctx, also a
// Read that waits for r: a silent terminal or pipe must not delay the end of a command. Such a Read leaves a goroutine
// behind, which waits for r and may consume bytes from it. So r is unusable then, which is harmless in a process that
// is about to end.
//
// One goroutine may use the reader.
func Until(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		own := make([]byte, len(b)) // a Read that is left behind must not write into the caller's bytes
		read := make(chan outcome, 1)
		go func() {
			n, err := r.Read(own)
			read <- outcome{n, err}
		}()
		select {
		case got := <-read:
			copy(b, own[:got.n])
			return got.n, got.err
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
}

// outcome is the result of a Read.
type outcome struct {
	n   int
	err error
}

type readerFunc func([]byte) (int, error)

// Read implements [io.Reader].
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Answer returns the next line of r without the spaces around it, at most a kilobyte. The end of r ends the line too.
// When ctx ends first, the error is its cause. Other errors are those of r; [io.EOF] if r ends before the first byte.
func Answer(ctx context.Context, r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(Until(ctx, r), maxAnswer)).ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil
	}
	return strings.TrimSpace(line), err
}

// maxAnswer bounds the bytes of an answer.
const maxAnswer = 1 << 10
