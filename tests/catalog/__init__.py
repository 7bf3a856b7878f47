"""Which names exist and where they live: races, requests, markers, and what pylance promises."""
