package app

import "nightshift/internal/redistest"
