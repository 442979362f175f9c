package dashboard

import "nightshift/dashboard/internal/door"

// public is what the login page needs beside its own: no login is needed for it.
var public = []string{"/static/icon.svg"}

// makeDoor makes the door that every request passes.
func (d *Dashboard) makeDoor() error {
	o := d.opts
	made, err := door.New(door.Options{
		Addr: o.Addr, Token: o.Token, BasePath: o.BasePath, Public: public, Logger: o.Logger, Now: o.Now,
	})
	d.door = made
	return err
}
