package dashboard

import (
	"net"

	"nightshift/config"
	"nightshift/dashboard/internal/door"
)

// public is what the login page needs beside its own: no login is needed for it.
var public = []string{"/static/icon.svg"}

// makeDoor makes the door that every request passes, and reads the certificate.
func (d *Dashboard) makeDoor() (err error) {
	o := d.opts
	if o.CertFile != "" || o.KeyFile != "" {
		if d.certificate, err = door.LoadCertificate(o.CertFile, o.KeyFile, o.Now, o.Logger); err != nil {
			return err
		}
	}
	d.door, err = door.New(door.Options{
		Addr: o.Addr, Token: o.Token, BasePath: o.BasePath, TLS: d.certificate != nil, Public: public, Logger: o.Logger, Now: o.Now,
	})
	if err != nil {
		return err
	}
	if host, _, _ := net.SplitHostPort(o.Addr); o.Token != "" && d.certificate == nil && !config.Loopback(host) {
		o.Logger.Warn("the dashboard speaks plain HTTP beyond this machine: its token can be read on the way, "+
			"unless a proxy in front speaks TLS; see dashboard.tls", "addr", o.Addr)
	}
	return nil
}
