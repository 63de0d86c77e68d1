package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"holdfast/node/config"
	"holdfast/transport/secure"
	"holdfast/transport/secure/issue"
)

// devCertificates are files in a directory of a dev cluster: a CA, and a certificate for each node. Each start makes
// new files, and the CA's key is kept nowhere.
type devCertificates struct{ dir string }

func (c devCertificates) ca() string { return filepath.Join(c.dir, "ca.pem") }

// of returns the files of a node's certificate and its key.
func (c devCertificates) of(node string) (cert, key string) {
	return filepath.Join(c.dir, "node-"+node+".pem"), filepath.Join(c.dir, "node-"+node+".key")
}

// secure makes the files, and has the nodes require TLS on all ports.
func (c devCertificates) secure(configs []config.Config) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	valid := issue.Span{From: now.Add(-time.Hour), To: now.AddDate(1, 0, 0)}
	ca, err := issue.NewCA("Holdfast dev CA", valid)
	if err != nil {
		return err
	}
	if err = os.WriteFile(c.ca(), ca.CertificatePEM(), 0o600); err != nil {
		return err
	}
	for i := range configs {
		if err := c.secureNode(ca, valid, &configs[i]); err != nil {
			return fmt.Errorf("certificate of node %d: %w", configs[i].Node, err)
		}
	}
	return nil
}

func (c devCertificates) secureNode(ca *issue.Issued, valid issue.Span, cfg *config.Config) error {
	number := strconv.FormatUint(uint64(cfg.Node), 10)
	name := secure.Name{Cluster: cfg.ClusterID, Kind: secure.KindNode, Name: number}
	made, err := ca.Issue(name, []string{"localhost", "127.0.0.1", "::1"}, valid)
	if err != nil {
		return err
	}
	private, err := made.KeyPEM()
	if err != nil {
		return err
	}
	cert, key := c.of(number)
	if err = os.WriteFile(cert, made.CertificatePEM(), 0o600); err != nil {
		return err
	}
	if err = os.WriteFile(key, private, 0o600); err != nil {
		return err
	}
	t := &cfg.TLS
	t.Nodes, t.Clients, t.HTTP = secure.Require, secure.Require, secure.Require
	t.Cert, t.Key, t.CA = cert, key, c.ca()
	return nil
}
