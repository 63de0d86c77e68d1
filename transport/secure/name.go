package secure

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"holdfast/session"
)

// Scheme is the scheme of the URIs that name the owners of certificates.
const Scheme = "holdfast"

// Kind is the kind of the owner of a certificate.
type Kind string

// Kinds of owners.
const (
	KindNode   Kind = "node"
	KindClient Kind = "client"
	KindAdmin  Kind = "admin"
)

// Name is the owner of a certificate: holdfast://CLUSTER/KIND/NAME, one URI among the certificate's subject alternative
// names. The name of a node is its number.
type Name struct {
	Cluster string
	Kind    Kind
	Name    string
}

// NodeName returns the name of a node of a cluster.
func NodeName(cluster string, node session.Node) Name {
	return Name{cluster, KindNode, strconv.Itoa(int(node))}
}

// URI returns the name in the form of a certificate.
func (n Name) URI() *url.URL {
	return &url.URL{Scheme: Scheme, Host: n.Cluster, Path: "/" + string(n.Kind) + "/" + n.Name}
}

// String says who the owner is.
func (n Name) String() string { return fmt.Sprintf("%s %s of cluster %q", n.Kind, n.Name, n.Cluster) }

// Node returns the node in the name; 0 for none.
func (n Name) Node() session.Node {
	number, err := strconv.ParseUint(n.Name, 10, 8)
	if n.Kind != KindNode || err != nil || strconv.FormatUint(number, 10) != n.Name ||
		!session.Node(number).Valid() {
		return 0
	}
	return session.Node(number)
}

// maxName bounds the last part of a name, in bytes.
const maxName = 64

// Check returns a [session.FieldError] if n cannot be in a certificate.
func (n Name) Check() error {
	switch {
	case !ValidCluster(n.Cluster):
		return &session.FieldError{Field: "cluster", Limit: "a cluster_id whose dots stand between other characters: " +
			"certificates have it as the host of a URI"}
	case n.Kind == KindNode && n.Node() == 0:
		return &session.FieldError{Field: "node", Limit: fmt.Sprintf("1 to %d", session.MaxNode)}
	case n.Kind != KindNode && n.Kind != KindClient && n.Kind != KindAdmin:
		return &session.FieldError{Field: "kind", Limit: "node, client or admin"}
	case n.Name == "" || len(n.Name) > maxName || strings.Trim(n.Name, nameLetters) != "":
		return &session.FieldError{Field: "name", Limit: fmt.Sprintf("1 to %d of a-z A-Z 0-9 . _ - @ +", maxName)}
	}
	return nil
}

const (
	hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	nameLetters = hostLetters + "@+"
)

// ValidCluster reports whether the name of a cluster can be the host of a URI in a certificate.
func ValidCluster(id string) bool {
	return id != "" && strings.Trim(id, hostLetters) == "" && !strings.HasPrefix(id, ".") &&
		!strings.HasSuffix(id, ".") && !strings.Contains(id, "..")
}

// NameOf returns the name in a certificate. It is zero for a certificate without one, which may be a client's. Two
// names, or a malformed name, are an error: otherwise two readers could see different owners.
func NameOf(c *x509.Certificate) (Name, error) {
	var found Name
	for _, u := range c.URIs {
		if !strings.EqualFold(u.Scheme, Scheme) {
			continue
		}
		if found != (Name{}) {
			return Name{}, fmt.Errorf("the certificate has two names, %s and %s", found.URI(), u)
		}
		kind, name, _ := strings.Cut(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
		found = Name{u.Host, Kind(kind), name}
		if err := found.Check(); err != nil || found.URI().String() != u.String() {
			return Name{}, fmt.Errorf("the certificate's name %s is not %s://CLUSTER/KIND/NAME", u, Scheme)
		}
	}
	return found, nil
}

// owner describes a certificate's owner for people.
func owner(c *x509.Certificate) string {
	switch n, err := NameOf(c); {
	case err != nil:
		return err.Error()
	case n != (Name{}):
		return n.String()
	default:
		return fmt.Sprintf("%q, which names neither a node nor a client of a cluster", c.Subject.String())
	}
}

// NodeOf returns the node of a cluster that owns a certificate. Any other certificate is an error, which names its
// owner.
func NodeOf(c *x509.Certificate, cluster string) (session.Node, error) {
	n, err := NameOf(c)
	if err != nil {
		return 0, err
	}
	if n.Node() == 0 || n.Cluster != cluster {
		return 0, fmt.Errorf("the certificate is of %s, want a node of cluster %q", owner(c), cluster)
	}
	return n.Node(), nil
}
