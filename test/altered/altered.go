// Package altered builds the program of a node with changes in its source, for tests of processes that need what no
// setting gives: a fault, or a constant with another value.
package altered

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Change has By stand in the place of Text, which File has exactly once. File is a path from the root of the sources.
type Change struct{ File, Text, By string }

// Snapshots returns the changes that have a node look every interval whether it has as many log entries as threshold,
// make a snapshot then, and keep as many entries behind it as trailing. Segments of the log are small.
func Snapshots(interval string, threshold, trailing int) []Change {
	const file = "node/config/tuning.go"
	return []Change{
		{file, "2 * time.Minute", interval},
		{file, "8192", fmt.Sprint(threshold)},
		{file, "100_000", fmt.Sprint(trailing)},
		{file, "256 << 20", "1 << 20"},
	}
}

// Node builds a program into a directory, with root as the folder of the sources, and returns its path.
func Node(ctx context.Context, dir, root string, changes []Change) (string, error) {
	sources := map[string]string{}
	for _, c := range changes {
		source, ok := sources[c.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, c.File))
			if err != nil {
				return "", err
			}
			source = string(b)
		}
		if n := strings.Count(source, c.Text); n != 1 {
			return "", fmt.Errorf("%s has %q %d times: a change needs it once", c.File, c.Text, n)
		}
		sources[c.File] = strings.Replace(source, c.Text, c.By, 1)
	}
	replace := map[string]string{}
	for file, source := range sources {
		from, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, "altered-"+filepath.Base(file))
		if err = os.WriteFile(to, []byte(source), 0o600); err != nil {
			return "", err
		}
		replace[from] = to
	}
	b, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay, program := filepath.Join(dir, "altered.json"), filepath.Join(dir, "altered-node")
	if err = os.WriteFile(overlay, b, 0o600); err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", root, "-overlay", overlay, "-o", program, "./cmd/node")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}
