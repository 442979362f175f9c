package main

func run() {
	flag("queue", "q")
}
