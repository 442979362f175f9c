package main

import (
	"os"
	"os/user"
)

// userName is the name of the user, "" where it cannot be told.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}
