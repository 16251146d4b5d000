# Only words. # ERROR: Empty configuration
