package cli

func flags() { flag("config") }
