package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/internal/arg"
	"holdfast/transport/secure"
	"holdfast/transport/secure/issue"
)

// certificates makes certificates for tests and small sites, in one directory.
type certificates struct {
	out     *printer
	dir     string
	cluster string
	hosts   []string
}

// Names of the files of a CA.
const (
	caFile = "ca.pem"
	caKey  = "ca.key"
)

// cert returns the commands that make and show certificates. They reach no cluster.
func cert(out *printer) *cobra.Command {
	c := &certificates{out: out}
	all := group("cert", "Make certificates for tests and small sites, and show them",
		c.newCA(), c.newNode(), c.newOther(secure.KindClient, "a client"), c.newOther(secure.KindAdmin, "an administrator"),
		c.show())
	all.Long = `Make certificates for tests and small sites, and show them.

The private key of the CA stays in the directory, unencrypted: whoever reads it can be any node. A site with a CA of its
own lets that sign instead. A node's certificate then has one URI, holdfast://CLUSTER_ID/node/NUMBER, among its
alternative names, beside the hosts at which clients reach it, and is for servers and for clients.`
	all.Example = `  holdfast cert ca --dir certs
  holdfast cert node 1 --dir certs --host n1.example.com,10.0.0.1
  holdfast cert client web --dir certs
  holdfast cert show certs/node-1.pem`
	return all
}

// flags adds the flags that all commands have. A variable that commands share has the default of the last of them, so
// days, whose default differs, is one of the command's own.
func (c *certificates) flags(cmd *cobra.Command, days *int, byDefault int) *cobra.Command {
	cmd.Flags().StringVar(&c.dir, "dir", ".", "directory of the CA and of what it signs, made if missing")
	cmd.Flags().Var(arg.Whole(days, byDefault, 1, 36500), "days", "how long the certificate is valid")
	return cmd
}

func (c *certificates) ofCluster(cmd *cobra.Command, days *int) *cobra.Command {
	cmd.Flags().StringVar(&c.cluster, "cluster-id", "holdfast", "cluster_id of the nodes; nodes of others refuse it")
	return c.flags(cmd, days, 365)
}

// lasting returns the time of a certificate that is valid for so many days.
func lasting(days int) issue.Span {
	// An hour before now, for clocks that are behind.
	now := time.Now().UTC().Truncate(time.Second)
	return issue.Span{From: now.Add(-time.Hour), To: now.AddDate(0, 0, days)}
}

func (c *certificates) newCA() *cobra.Command {
	var name string
	var days int
	cmd := &cobra.Command{
		Use: "ca", Short: "Make a CA: " + caFile + " and " + caKey, Args: arg.None,
		RunE: func(*cobra.Command, []string) error {
			ca, err := issue.NewCA(name, lasting(days))
			if err != nil {
				return err
			}
			return c.write(ca, caFile, caKey)
		},
	}
	cmd.Flags().StringVar(&name, "name", "Holdfast CA", "common name of the CA")
	return c.flags(cmd, &days, 3650)
}

func (c *certificates) newNode() *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use: "node NUMBER", Short: "Make the certificate of a node: node-NUMBER.pem and node-NUMBER.key",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, host := range c.hosts {
				if err := issue.CheckHost(host); err != nil {
					return usage("--host %q: %w", host, err)
				}
			}
			hosts := append([]string{"localhost", "127.0.0.1", "::1"}, c.hosts...)
			return c.issue(secure.Name{Cluster: c.cluster, Kind: secure.KindNode, Name: args[0]}, hosts, days)
		},
	}
	cmd.Flags().StringSliceVar(&c.hosts, "host", nil,
		"names and IP addresses at which clients reach the node, separated by commas; loopback is always among them")
	return c.ofCluster(cmd, &days)
}

func (c *certificates) newOther(kind secure.Kind, what string) *cobra.Command {
	var days int
	return c.ofCluster(&cobra.Command{
		Use:   string(kind) + " NAME",
		Short: fmt.Sprintf("Make the certificate of %s: %s-NAME.pem and %s-NAME.key", what, kind, kind),
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return c.issue(secure.Name{Cluster: c.cluster, Kind: kind, Name: args[0]}, nil, days)
		},
	}, &days)
}

// issue signs a certificate with the CA of the directory.
func (c *certificates) issue(name secure.Name, hosts []string, days int) error {
	if err := name.Check(); err != nil {
		return usageError{err}
	}
	var pair [2][]byte
	for i, file := range []string{caFile, caKey} {
		var err error
		if pair[i], err = os.ReadFile(filepath.Join(c.dir, file)); err != nil {
			return fmt.Errorf("reading the CA, which \"holdfast cert ca --dir %s\" makes: %w", c.dir, err)
		}
	}
	ca, err := issue.ReadCA(pair[0], pair[1])
	if err != nil {
		return fmt.Errorf("reading the CA in %s: %w", c.dir, err)
	}
	made, err := ca.Issue(name, hosts, lasting(days))
	if err != nil {
		return err
	}
	stem := string(name.Kind) + "-" + name.Name
	return c.write(made, stem+".pem", stem+".key")
}

// write writes a certificate and its key, and replaces neither.
func (c *certificates) write(made *issue.Issued, certificate, key string) error {
	private, err := made.KeyPEM()
	if err != nil {
		return err
	}
	if err = os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	files := []struct {
		path string
		data []byte
		mode fs.FileMode
	}{
		{filepath.Join(c.dir, key), private, 0o600},
		{filepath.Join(c.dir, certificate), made.CertificatePEM(), 0o644},
	}
	for _, f := range files {
		if _, err = os.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s is there already, and is not replaced: move both files away, or give another "+
				"--dir", f.path), err)
		}
	}
	for _, f := range files {
		if err = writeNew(f.path, f.data, f.mode); err != nil {
			return err
		}
	}
	view := issuedViewOf(made.Certificate)
	view.Certificate, view.Key = files[1].path, files[0].path
	return c.out.print(view, func() string {
		return fmt.Sprintf("%s\n%s\n%s\n  private key, for its owner alone\n", view.Certificate,
			secure.Describe(made.Certificate), view.Key)
	})
}

// issuedView is a certificate in JSON.
type issuedView struct {
	Certificate string    `json:"certificate,omitempty"`
	Key         string    `json:"key,omitempty"`
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	URIs        []string  `json:"uris,omitempty"`
	Hosts       []string  `json:"hosts,omitempty"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
}

func issuedViewOf(c *x509.Certificate) issuedView {
	v := issuedView{
		Subject: secure.SubjectOf(c), Issuer: c.Issuer.String(), Hosts: c.DNSNames,
		NotBefore: c.NotBefore, NotAfter: c.NotAfter,
	}
	for _, ip := range c.IPAddresses {
		v.Hosts = append(v.Hosts, ip.String())
	}
	for _, u := range c.URIs {
		v.URIs = append(v.URIs, u.String())
	}
	return v
}

// writeNew writes a file that must not be there.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func (c *certificates) show() *cobra.Command {
	return &cobra.Command{
		Use: "show FILE", Short: "Show the certificates in a PEM file: whose they are, by whom, until when",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			b, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			all, err := secure.Certificates(b)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if len(all) == 0 {
				return fmt.Errorf("%s holds no certificate in PEM form", args[0])
			}
			var views []issuedView
			var text strings.Builder
			for i, one := range all {
				views = append(views, issuedViewOf(one))
				fmt.Fprintf(&text, "certificate %d of %d\n%s\n", i+1, len(all), linesOf(secure.Describe(one)))
			}
			return c.out.print(views, text.String)
		},
	}
}

// linesOf makes text of a certificate fit for a terminal.
func linesOf(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = escaped(lines[i])
	}
	return strings.Join(lines, "\n")
}
