package clitest

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	"holdfast/test/fuzz/bound"
)

// RunFuzzed runs the program with an ended context, and bounds its memory and time.
func RunFuzzed(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	size := 0
	for _, arg := range args {
		size += len(arg)
	}
	var out, errOut bytes.Buffer
	// The table library measures and styles each cell: the line of a one-byte argument costs some thousand bytes.
	bound.Cost{PerByte: 32 << 10, Fixed: 2 << 20}.Hold(t, size, func() {
		code = Run(ctx, args, strings.NewReader(fakenode.TokenText), &out, &errOut)
	})
	return code, out.String(), errOut.String()
}
