"""What assistive technology is told: roles, ARIA attributes and accessible names."""
