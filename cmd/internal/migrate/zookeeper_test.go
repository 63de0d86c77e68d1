package migrate

import (
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"

	"holdfast/tree"
)

// A cluster keeps an address in one spelling. With another spelling the list of the source would differ from it at each
// run.
func TestAddressesInListsAreComparable(t *testing.T) {
	for of, want := range map[string]string{
		"2001:DB8:0::7": "2001:db8::7", "::ffff:192.0.2.7": "192.0.2.7", "10.0.0.0/8": "10.0.0.0/8",
	} {
		got, err := aclOf([]zk.ACL{{Perms: zk.PermRead, Scheme: "ip", ID: of}})
		if list := (tree.ACL{{Permissions: tree.Read, Scheme: tree.IP, ID: want}}); err != nil || !slices.Equal(got, list) {
			t.Errorf("%s: got %v, %v", of, got, err)
		}
	}
}
