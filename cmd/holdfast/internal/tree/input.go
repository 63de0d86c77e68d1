package tree

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/tree"
)

// dataHelp is part of the help of every command that takes data.
const dataHelp = `DATA is the text itself, - for the standard input, or @FILE for the content of a file, byte for
byte. A text that begins with @ needs a second @: @@.`

// maxData bounds the data that a command reads: no entry has more.
const maxData = tree.MaxRequest

// readArgument returns the data that an argument means: the text itself, - for the standard input, or @FILE. Two @
// begin a text with one.
func readArgument(ctx context.Context, argument string, stdin io.Reader) ([]byte, error) {
	name, isFile := strings.CutPrefix(argument, "@")
	switch {
	case argument == "-":
		return readData(ctx, "standard input", stdin)
	case strings.HasPrefix(name, "@"), !isFile:
		return []byte(strings.TrimPrefix(argument, "@")), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, cli.Usage("DATA: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading only
	return readData(ctx, name, file)
}

// readData reads all of r, which has the name.
func readData(ctx context.Context, name string, r io.Reader) ([]byte, error) {
	data, err := readUpTo(ctx, maxData, name, r)
	if err == nil && len(data) > maxData {
		err = cli.Usage("%s has more than %d bytes, which is the limit of a write", name, maxData)
	}
	return data, err
}

// readUpTo reads all of r, which has the name, or one byte more than most. It fails when ctx ends first.
func readUpTo(ctx context.Context, most int64, name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(arg.Until(ctx, r), most+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case err != nil:
		return nil, cli.Usage("read %s: %w", name, err)
	}
	return data, nil
}
