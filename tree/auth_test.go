package tree

import "testing"

// An address that is written in another way than nodes write it grants what it says.
func TestAddressesOfGrants(t *testing.T) {
	for written, from := range map[string]string{
		"2001:DB8:0::7": "2001:db8::7", "::ffff:192.0.2.7": "192.0.2.7", "fe80::1%eth0": "fe80::1",
		"192.0.2.7": "192.0.2.7", "2001:DB8::/32": "2001:db8::7",
	} {
		given := ACL{{Permissions: Read, Scheme: IP, ID: written}}
		list, err := given.Expand(nil)
		if err != nil || list.Check() != nil {
			t.Errorf("%s: %v, %v", written, err, list.Check())
		}
		if !list.Grants(Read, []Principal{{Scheme: IP, ID: from}}) {
			t.Errorf("a grant to %s gives nothing to %s", written, from)
		}
		if given[0].ID != written {
			t.Errorf("the given list says %s by now", given[0].ID)
		}
	}
}
