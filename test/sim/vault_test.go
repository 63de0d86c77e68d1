package sim

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"

	"holdfast/tree"
)

const (
	// vaultPath has entries that authors hide from each other. Every author may change its list, so that no entry is
	// locked for good.
	vaultPath  = deskPath + "/vault"
	vaultQuota = tree.QuotaPath + vaultPath + "/" + tree.QuotaLimitsName
)

// password returns an author's digest.
func password(name string) string { return name + ":its password" }

// known returns an author's principals.
func (x *author) known() []tree.Principal { return []tree.Principal{principal(x.name)} }

func principal(name string) tree.Principal {
	sum := sha1.Sum([]byte(password(name)))
	return tree.Principal{Scheme: tree.Digest, ID: name + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// everything is who may do all there is.
func everything() []tree.Principal { return []tree.Principal{{Scheme: tree.Super}} }

// locked returns an entry that an author may be kept from.
func (x *author) locked() string { return fmt.Sprintf("%s/v%d", vaultPath, x.draw(2)) }

// list draws an access list: open to all, one author's, one that is open to read, or none.
func (x *author) list() tree.ACL {
	one := tree.Grant{
		Permissions: tree.All, Scheme: tree.Digest, ID: principal([]string{"a1", "a2"}[x.draw(2)]).ID,
	}
	switch x.draw(5) {
	case 0:
		return nil
	case 1:
		return tree.Open()
	case 2:
		return tree.ACL{one, {Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone}}
	default:
		return tree.ACL{one}
	}
}

// privately draws operations on entries that have lists and a quota.
func (x *author) privately(data []byte) (ops []tree.Op, about string) {
	about = x.locked()
	switch x.draw(9) {
	case 0, 1:
		ops = []tree.Op{tree.Create{Path: about, Kind: tree.Persistent, Parents: true, Data: data, ACL: x.list()}}
	case 2:
		ops = []tree.Op{tree.SetACL{Path: about, ACL: x.list(), Version: tree.Any}}
	case 3:
		// The vault's list decides who makes and removes entries there.
		ops = []tree.Op{tree.SetACL{Path: vaultPath, Version: tree.Any, ACL: append(x.list(),
			tree.Grant{Permissions: tree.Admin, Scheme: tree.World, ID: tree.Anyone})}}
	case 4:
		ops = []tree.Op{tree.Delete{Path: about, Version: tree.Any}}
	case 5:
		ops = []tree.Op{
			tree.Check{Path: about, Version: tree.Any}, tree.Set{Path: x.register(), Version: tree.Any, Data: data},
		}
	case 6:
		// The vault and up to one entry more fit, or one with little data.
		limits := tree.Quota{
			Count: tree.NoQuota, Bytes: tree.NoQuota, CountHard: int64(1 + x.draw(3)), BytesHard: tree.NoQuota,
		}
		if x.draw(2) == 0 {
			limits.BytesHard = int64(len(data) + x.draw(12))
		}
		text := []byte(limits.String())
		ops = []tree.Op{tree.Create{Path: vaultQuota, Kind: tree.Persistent, Parents: true, Data: text}}
		if x.draw(2) == 0 {
			ops = []tree.Op{tree.Set{Path: vaultQuota, Version: tree.Any, Data: text}}
		}
	default:
		ops = []tree.Op{tree.Set{Path: about, Version: tree.Any, Data: data}}
	}
	return ops, about
}
