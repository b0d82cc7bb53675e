"""What several states share: parts of the session taken and given back changed, with the effects of the change."""
