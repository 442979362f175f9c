package tasks

import "nightshift/cmd/worker"
