//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/test/altered"
	"holdfast/test/timeout"
)

// leaks returns a line for each secret that is in something that is shown, and for all that shows nothing: a test that
// looks there would find no leak.
func leaks(shown, secrets map[string]string) (found []string) {
	for where, text := range shown {
		if text == "" {
			found = append(found, where+" is empty: this test does not look at what it should")
		}
		for name, secret := range secrets {
			for _, form := range forms(secret) {
				if strings.Contains(text, form) {
					found = append(found, name+" is in "+where)
					break
				}
			}
		}
	}
	return found
}

// forms returns the texts in which programs show a secret: as it is, quoted, in hex, in base64, as the numbers of a
// slice of bytes, and as the words in which Go's stacks show what is passed by value.
func forms(secret string) []string {
	b := []byte(secret)
	quoted, numbers := strconv.Quote(secret), fmt.Sprintf("%d", b)
	all := []string{
		secret, quoted[1 : len(quoted)-1], hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)),
		base64.RawStdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b), numbers[1 : len(numbers)-1],
	}
	for word := range len(b) / 8 {
		all = append(all, fmt.Sprintf("%#x", binary.LittleEndian.Uint64(b[8*word:])))
	}
	return all
}

// clusterKey returns the cluster's key from the state of a snapshot, whose first record has it.
func clusterKey(t *testing.T, state []byte) string {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(state))
	magic, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(magic, "holdfast ") {
		t.Fatalf("the snapshot begins with %q, %v", magic, err)
	}
	length, err := binary.ReadUvarint(r)
	if err != nil || length > uint64(len(state)) {
		t.Fatalf("the first record has %d bytes, %v", length, err)
	}
	message := make([]byte, 4+length) // behind a checksum
	if _, err = io.ReadFull(r, message); err != nil {
		t.Fatal(err)
	}
	record := &logv1.Record{}
	timeout.Check(t, proto.Unmarshal(message[4:], record))
	key := record.GetHeader().GetClusterKey()
	if len(key) != 32 {
		t.Fatalf("the cluster's key has %d bytes, want 32", len(key))
	}
	return string(key)
}

// altered builds a node program with changes.
func (k *keeper) altered(changes ...altered.Change) string {
	k.t.Helper()
	program, err := altered.Node(k.t.Context(), k.t.TempDir(), "../..", changes)
	timeout.Check(k.t, err)
	return program
}

// title returns the words with which a process was started, as other users of the machine see them.
func title(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	timeout.Check(t, err)
	return strings.ReplaceAll(string(text), "\x00", " ")
}
